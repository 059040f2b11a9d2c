//! The check that SNS wrote a letter.
//!
//! Anyone who may write to a dead-letter queue can write any letter into it. The guard of
//! [`delivery`](crate::delivery) keeps such a letter away from every endpoint except those whose owners named
//! the queue. With `verifySignature` the content must be SNS's too. SNS signs messages to queues, functions
//! and HTTP endpoints, and names the certificate by a URL in the message. It does not sign messages of FIFO
//! topics and raw deliveries.
//!
//! The checks, in this order:
//!
//! 1. The letter is one clear SNS message: no field of it, or of the event around it, is repeated, not even
//!    with different case. So no later reader can see other values than this one.
//! 2. The URL of the certificate is SNS's own, in the region of the letter's topic: [`CertificateUrl`].
//! 3. The certificate was fetched from there over TLS. This is the source of trust.
//! 4. It is issued to SNS, is valid now, is no CA, and is for the same use as SNS's certificates.
//! 5. Its key is RSA of 2,048 bits or more, and the signature, of version 1 (SHA-1) or 2 (SHA-256), was made
//!    with that key over the signed fields: `Message`, `MessageId`, `Subject`, `Timestamp`, `TopicArn`,
//!    `Type`.
//!
//! Not checked:
//!
//! - The issuer of the certificate. SNS serves the certificate alone, without the intermediate one that leads
//!   to a root, so no path can be built from it; AWS's own checkers do not build one either. The proof is
//!   that SNS's host, known by its own TLS certificate, served it. If the file does have more certificates,
//!   they must form a path. This guards against a mix-up, not against SNS's host.
//! - Revocation.
//! - The owner of the topic. SNS signs for everyone, even for an attacker's own topic. The subscription's
//!   check or the rule's pattern must decide whether the letter's topic is the right one. The signed topic is
//!   [`SignedMessage::topic`].
//! - Content that SNS does not sign: message attributes, the unsubscribe link and with it the subscription
//!   (for which SNS is asked about the subscription itself), and fields unknown to SNS.
//! - Age. Anyone who can write to the queue can put a signed message there again.
//!
//! Version 1 is only as strong as SHA-1: anyone who may publish to the topic could try to make two messages with
//! the same signature. Topics can be set to `SignatureVersion` 2.
//!
//! The certificate is checked against the present, not against the time of the message. So a letter that was
//! in an archive for months may outlive its certificate; SNS's are valid for less than a year.
//!
//! Only [`CertificateReader`] does I/O, because it fetches.
//! Source: <https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html>

mod certificate;
mod certificates;
mod fault;
mod message;
mod url;

pub use certificate::{Certificate, NotACertificate, verify};
pub use certificates::{CertificateReader, MAX_CERTIFICATE_BYTES};
pub use fault::SignatureFault;
pub use message::{SignatureVersion, SignedMessage};
pub use url::CertificateUrl;
