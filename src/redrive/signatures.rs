//! Checks of SNS's signatures.

use std::collections::BTreeSet;
use std::sync::Arc;

use redrive_aws::clock::InstanceClock;
use redrive_aws::signature::{self, CertificateReader, CertificateUrl, SignatureFault, SignedMessage};
use redrive_core::batch::{SendResult, SignatureResult};
use redrive_core::letter::{Letter, original_event};
use tokio::time::Instant;

/// Checks that SNS signed each letter's message, and for the letter's own topic.
pub(super) async fn verify(
    letters: &[Arc<Letter>],
    certificates: &CertificateReader,
    clock: &InstanceClock,
    until: Instant,
) -> Vec<SignatureResult> {
    let read: Vec<Result<SignedMessage, SignatureFault>> =
        letters.iter().map(|letter| SignedMessage::read(original_event(letter))).collect();
    let urls: BTreeSet<&CertificateUrl> =
        read.iter().filter_map(|message| Some(message.as_ref().ok()?.certificate())).collect();
    let certificates = certificates.look_up(urls, until).await;
    let now = clock.now();
    let check = |(letter, message): (&Arc<Letter>, Result<SignedMessage, SignatureFault>)| {
        let message = match message {
            Ok(message) => message,
            Err(fault) => return SignatureResult::Refused(fault.detail()),
        };
        // SNS signs for everyone. A message of somebody else's topic must not pass as one of ours.
        if letter.topic() != Some(message.topic()) {
            return SignatureResult::Refused(
                "SNS signed the message for another topic than the letter names: the letter was forged or edited",
            );
        }
        match certificates.get(message.certificate()) {
            Some(Ok(certificate)) => match signature::verify(&message, certificate, now) {
                Ok(()) => SignatureResult::Genuine,
                Err(fault) => SignatureResult::Refused(fault.detail()),
            },
            Some(Err(sent)) => SignatureResult::Unknown(sent.clone()),
            None => SignatureResult::Unknown(SendResult::NotStarted),
        }
    };
    letters.iter().zip(read).map(check).collect()
}
