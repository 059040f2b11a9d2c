//! Was this letter really written by SNS?
//!
//! Whoever may write to a dead-letter queue can write any letter into it. The guard of
//! [`delivery`](crate::delivery) keeps such a letter away from every endpoint but those whose owners
//! named the queue; with `verifySignature` the content must be SNS's too. SNS signs what it sends
//! to queues, functions and HTTP endpoints (topics that are FIFO, and raw deliveries, it does not
//! sign), and names the certificate by a URL in the message.
//!
//! Checked, in this order:
//!
//! 1. The letter is one clear SNS message: no field of it, and of the event around it, stands there
//!    twice, not even in another case, so that no reader after us can see other values than we did.
//! 2. The URL of the certificate is SNS's own, in the region of the letter's topic: [`CertificateUrl`].
//! 3. The certificate was fetched from there over TLS, which is where the trust comes from.
//! 4. It is issued to SNS, is valid now, is no CA and serves for what SNS's certificates serve for.
//! 5. Its key is RSA of 2,048 bits or more, and the signature, of version 1 (SHA-1) or 2 (SHA-256),
//!    is that key's over the signed fields: `Message`, `MessageId`, `Subject`, `Timestamp`,
//!    `TopicArn`, `Type`.
//!
//! Not checked:
//!
//! - The issuer of the certificate. SNS serves the certificate alone, without the intermediate one
//!   that leads to a root, so no path can be built from it; AWS's own checkers do not build one
//!   either. The proof is that SNS's host, known by its own TLS certificate, served it. Where the
//!   file does hold more certificates they must form a path, which guards against a mix-up, not
//!   against SNS's host.
//! - Revocation.
//! - Whose topic it is: SNS signs for everybody, an attacker's own topic included. That the letter's
//!   topic is the right one is for the subscription's check or the rule's pattern to say; the signed
//!   one is [`SignedMessage::topic`].
//! - What SNS does not sign: message attributes, the unsubscribe link and with it the subscription
//!   (about that, the subscription itself is asked), and fields unknown to SNS.
//! - Age: who can write to the queue can put a signed message there again.
//!
//! Version 1 is as strong as SHA-1: who may publish to the topic could work on a pair of messages
//! with one signature. Topics take `SignatureVersion` 2.
//!
//! The check is against now, not against the time of the message, so a letter that has lain for
//! months in an archive may outlive its certificate. SNS's live for less than a year.
//!
//! Everything here is pure but [`Certificates`], which fetches.
//! Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html>

mod certificate;
mod certificates;
mod message;
mod url;

pub use certificate::{Certificate, NotACertificate, verify};
pub use certificates::{Certificates, MAX_CERTIFICATE_BYTES};
pub use message::{SignatureVersion, SignedMessage};
pub use url::CertificateUrl;

/// The check that a letter failed. Every one is a fault of the letter, which time will not mend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.detail())]
pub enum SignatureFault {
    /// It has no signature: a raw delivery, a message of a FIFO topic, or nothing of SNS at all.
    Unsigned,
    /// A signed field is missing, or holds what SNS never puts there.
    Malformed,
    /// A field stands there twice, or twice but for its case.
    Ambiguous,
    /// A version other than 1 and 2.
    UnknownVersion,
    /// The URL of the certificate is not SNS's own in the topic's region.
    ForeignCertificateUrl,
    /// The certificate is issued to somebody else, to a CA, or for another use.
    ForeignCertificate,
    /// The certificate has expired or is not valid yet.
    OutdatedCertificate,
    /// The file with the certificate holds others that do not lead up from it.
    BrokenChain,
    /// The signature is not this certificate's over this message.
    Mismatch,
}

impl SignatureFault {
    /// The check in words that an operator can act on.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::Unsigned => "the letter is not signed",
            Self::Malformed => "a signed field of the letter is missing or malformed",
            Self::Ambiguous => "a field stands in the letter twice",
            Self::UnknownVersion => "the version of the signature is not known",
            Self::ForeignCertificateUrl => {
                "the certificate's address is not one of SNS in the topic's region"
            }
            Self::ForeignCertificate => "the certificate is not from SNS",
            Self::OutdatedCertificate => "the certificate is not valid now",
            Self::BrokenChain => "the certificate's chain does not hold",
            Self::Mismatch => "the signature does not match",
        }
    }
}
