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
mod fault;
mod message;
mod url;

pub use certificate::{Certificate, NotACertificate, verify};
pub use certificates::{Certificates, MAX_CERTIFICATE_BYTES};
pub use fault::SignatureFault;
pub use message::{SignatureVersion, SignedMessage};
pub use url::CertificateUrl;
