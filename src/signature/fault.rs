//! The checks of a signature that a letter can fail.

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
