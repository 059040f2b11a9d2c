//! The checks of a signature that a letter can fail.

/// The check that a letter failed. Trying again does not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.detail())]
pub enum SignatureFault {
    /// The letter has no signature: a raw delivery, a message of a FIFO topic, or no message of SNS.
    Unsigned,
    /// The letter is no notification, or a signed field is missing or has a value that SNS never writes.
    Malformed,
    /// A field occurs twice, perhaps with different case.
    Ambiguous,
    /// The version is neither 1 nor 2.
    UnknownVersion,
    /// The URL of the certificate is not SNS's own in the topic's region.
    ForeignCertificateUrl,
    /// The certificate belongs to somebody else, to a CA, or is for another use.
    ForeignCertificate,
    /// The certificate has expired or is not valid yet.
    OutdatedCertificate,
    /// The file has other certificates that do not form a chain from this one.
    BrokenChain,
    /// The signature is not one by this certificate's key over this message.
    Mismatch,
}

impl SignatureFault {
    /// Returns the failed check in words that an operator can act on.
    #[must_use]
    pub fn detail(self) -> &'static str {
        match self {
            Self::Unsigned => {
                "the letter is not signed: SNS may not have written it. Raw deliveries need a rule with \"verifySignature\": false, letters of FIFO topics a queue of their own"
            }
            Self::Malformed => {
                "the letter is not a notification as SNS writes it: a signed field is missing or malformed"
            }
            Self::Ambiguous => "the letter has a field twice: SNS did not write it",
            Self::UnknownVersion => {
                "the signature has a version that this release does not know (it knows 1 and 2): if SNS writes it, take a newer release"
            }
            Self::ForeignCertificateUrl => {
                "the certificate's URL is not one of SNS in the topic's region: SNS did not write this letter"
            }
            Self::ForeignCertificate => {
                "the certificate from SNS's server is not of the kind that SNS used: if SNS has changed it, take a newer release"
            }
            Self::OutdatedCertificate => {
                "the certificate has expired, or is not valid yet, so the signature proves nothing: ask the publisher whether the letter is real"
            }
            Self::BrokenChain => {
                "the certificates from SNS's server do not form a chain: if SNS has changed them, take a newer release"
            }
            Self::Mismatch => "the signature does not match: the letter was forged or edited",
        }
    }
}
