//! Checks of SNS's signatures.

use std::collections::BTreeSet;
use std::sync::Arc;

use tokio::time::Instant;

use super::Redrive;
use crate::batch::{Sent, Verification};
use crate::letter::{Letter, original_event};
use crate::signature::{CertificateUrl, SignatureFault, SignedMessage, verify};

impl Redrive {
    /// Checks that SNS has signed each letter's message, for the letter's own topic.
    pub(super) async fn verify(&self, letters: &[Arc<Letter>], until: Instant) -> Vec<Verification> {
        let read: Vec<Result<SignedMessage, SignatureFault>> =
            letters.iter().map(|letter| SignedMessage::read(original_event(letter))).collect();
        let urls: BTreeSet<&CertificateUrl> =
            read.iter().filter_map(|message| Some(message.as_ref().ok()?.certificate())).collect();
        let certificates = self.certificates.look_up(urls, until).await;
        let now = self.clock.now();
        let check = |(letter, message): (&Arc<Letter>, Result<SignedMessage, SignatureFault>)| {
            let message = match message {
                Ok(message) => message,
                Err(fault) => return Verification::Refused(fault.detail()),
            };
            // SNS signs for everybody: a message of somebody else's topic must not pass as one of ours.
            if letter.topic() != Some(message.topic()) {
                return Verification::Refused("the signed topic is not the letter's");
            }
            match certificates.get(message.certificate()) {
                Some(Ok(certificate)) => match verify(&message, certificate, now) {
                    Ok(()) => Verification::Genuine,
                    Err(fault) => Verification::Refused(fault.detail()),
                },
                Some(Err(sent)) => Verification::Unknown(sent.clone()),
                None => Verification::Unknown(Sent::NotStarted),
            }
        };
        letters.iter().zip(read).map(check).collect()
    }
}
