//! The checks of a signature that a letter can fail.

/// The check that a letter failed. Each is a fault of the letter that does not go away with time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.detail())]
pub enum SignatureFault {
    /// The letter has no signature: a raw delivery, a message of a FIFO topic, or no message of SNS.
    Unsigned,
    /// A signed field is missing, or has a value that SNS never writes.
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
                "the letter is not signed: SNS may not have written it. Raw deliveries, and letters of FIFO topics, need a rule without verifySignature"
            }
            Self::Malformed => "a signed field is missing or malformed: SNS did not write this letter",
            Self::Ambiguous => "the letter has a field twice: SNS did not write it",
            Self::UnknownVersion => "the signature has an unknown version: only 1 and 2 exist",
            Self::ForeignCertificateUrl => {
                "the certificate's URL is not one of SNS in the topic's region: SNS did not write this letter"
            }
            Self::ForeignCertificate => "the certificate is not one of SNS: SNS did not write this letter",
            Self::OutdatedCertificate => {
                "the certificate has expired, or is not valid yet: SNS's own signature can no longer be checked"
            }
            Self::BrokenChain => "the certificate's chain is not valid: SNS did not write this letter",
            Self::Mismatch => "the signature does not match: the letter was forged or edited",
        }
    }
}
