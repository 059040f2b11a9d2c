//! The check of `verifySignature`, before a letter may go anywhere.

use std::collections::BTreeSet;

use tokio::time::Instant;

use super::case::Case;
use super::{Redrive, half_of};
use crate::letter::original_event;
use crate::policy::{ArchiveReason, Retry};
use crate::signature::{CertificateUrl, SignatureFault, SignedMessage, verify};

impl Redrive {
    /// Passes on the letters that SNS signed, and those whose rule does not ask. Others are settled:
    /// a fault of the letter is a refusal, a certificate that cannot be had a failed attempt.
    pub(super) async fn verify(
        &self,
        cases: &mut [Case<'_>],
        due: Vec<(usize, Retry)>,
        until: Instant,
    ) -> Vec<(usize, Retry)> {
        let (asked, mut passed): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|(index, _)| cases[*index].rule.verify_signature);
        if asked.is_empty() {
            return passed;
        }
        let read: Vec<(usize, Retry, Result<SignedMessage, SignatureFault>)> = asked
            .into_iter()
            .map(|(index, retry)| (index, retry, SignedMessage::read(original_event(&cases[index].letter))))
            .collect();
        let urls: BTreeSet<&CertificateUrl> =
            read.iter().filter_map(|(.., message)| Some(message.as_ref().ok()?.certificate())).collect();
        let certificates = self.certificates.look_up(urls, half_of(until)).await;
        let now = self.clock.now();
        for (index, retry, message) in read {
            let case = &mut cases[index];
            let message = match message {
                Ok(message) => message,
                Err(fault) => {
                    case.archive(ArchiveReason::Refused, Some(fault.detail().to_owned()));
                    continue;
                }
            };
            // SNS signs for everybody: a message of somebody else's topic must not pass as one of ours.
            if case.letter.topic() != Some(message.topic()) {
                case.archive(ArchiveReason::Refused, Some("the signed topic is not the letter's".to_owned()));
                continue;
            }
            match certificates.get(message.certificate()) {
                Some(Ok(certificate)) => match verify(&message, certificate, now) {
                    Ok(()) => passed.push((index, retry)),
                    Err(fault) => case.archive(ArchiveReason::Refused, Some(fault.detail().to_owned())),
                },
                Some(Err(sent)) => case.answered(retry, sent.clone(), now),
                None => case.answered(retry, crate::delivery::Sent::NotStarted, now),
            }
        }
        // The order of the batch, in which letters of one request go out.
        passed.sort_unstable_by_key(|(index, _)| *index);
        passed
    }
}
