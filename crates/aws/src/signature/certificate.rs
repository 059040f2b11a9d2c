//! A certificate of SNS, and the verification of a message with it.

use std::time::Duration;

use jiff::Timestamp;
use ring::signature::{RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, UnparsedPublicKey};
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{
    AlgorithmIdentifier, CertificateDer, InvalidSignature, SignatureVerificationAlgorithm, UnixTime, alg_id,
};
use webpki::ring::RSA_PKCS1_2048_8192_SHA256;
use webpki::{ALL_VERIFICATION_ALGS, EndEntityCert, Error, KeyUsage, anchor_from_trusted_cert};

use super::fault::SignatureFault;
use super::message::{SignatureVersion, SignedMessage};
use super::url::SigningRegion;

/// A certificate that can be read. Nothing else about it has been checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificate {
    leaf: CertificateDer<'static>,
    /// The certificates after it in its file. SNS puts none there.
    others: Vec<CertificateDer<'static>>,
}

/// The error for a text without an X.509 certificate in PEM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not an X.509 certificate in PEM")]
pub struct NotACertificate;

impl Certificate {
    /// Reads a PEM file, whose first certificate is the signer's.
    ///
    /// # Errors
    ///
    /// [`NotACertificate`] if a part of it cannot be read.
    pub fn from_pem(pem: &str) -> Result<Self, NotACertificate> {
        let mut all = CertificateDer::pem_slice_iter(pem.as_bytes());
        let leaf = all.next().and_then(Result::ok).ok_or(NotACertificate)?;
        let others = all.collect::<Result<_, _>>().map_err(|_| NotACertificate)?;
        EndEntityCert::try_from(&leaf).map_err(|_| NotACertificate)?;
        Ok(Self { leaf, others })
    }

    /// Checks that it is valid now, is no CA, is for TLS servers (as SNS's are), and that only its issuers
    /// follow it in the file.
    fn check(&self, leaf: &EndEntityCert<'_>, now: Timestamp) -> Result<(), SignatureFault> {
        let broken = |_| SignatureFault::BrokenChain;
        let (anchors, between) = match self.others.split_last() {
            None => (vec![], [].as_slice()),
            Some((top, between)) => (vec![anchor_from_trusted_cert(top).map_err(broken)?], between),
        };
        let usage = KeyUsage::server_auth();
        let path = leaf.verify_for_usage(
            ALL_VERIFICATION_ALGS,
            &anchors,
            between,
            unix_time(now),
            usage,
            None,
            None,
        );
        match path {
            Ok(_) => Ok(()),
            // webpki cannot check a certificate on its own. It checks the certificate first and looks for an
            // issuer last, so this error means that everything else was right.
            Err(Error::UnknownIssuer) if self.others.is_empty() => Ok(()),
            Err(Error::CertExpired { .. } | Error::CertNotValidYet { .. }) => {
                Err(SignatureFault::OutdatedCertificate)
            }
            Err(_) if self.others.is_empty() => Err(SignatureFault::ForeignCertificate),
            Err(_) => Err(SignatureFault::BrokenChain),
        }
    }
}

/// Verifies a message with the certificate that it names, which was fetched from the URL in the message.
///
/// # Errors
///
/// [`SignatureFault::ForeignCertificate`], `OutdatedCertificate`, `BrokenChain` or `Mismatch`. A key other
/// than RSA of 2,048 bits or more is a `Mismatch`.
pub fn verify(
    message: &SignedMessage,
    certificate: &Certificate,
    now: Timestamp,
) -> Result<(), SignatureFault> {
    let foreign = SignatureFault::ForeignCertificate;
    let leaf = EndEntityCert::try_from(&certificate.leaf).map_err(|_| foreign)?;
    let names = SigningRegion::of(message.topic()).ok_or(foreign)?.certificate_names();
    // Names are compared literally: a wildcard is not SNS's.
    if !leaf.valid_dns_names().any(|name| names.iter().any(|of_sns| of_sns == name)) {
        return Err(foreign);
    }
    certificate.check(&leaf, now)?;
    let algorithm = match message.version() {
        SignatureVersion::V1 => &Sha1WithRsa,
        SignatureVersion::V2 => RSA_PKCS1_2048_8192_SHA256,
    };
    leaf.verify_signature(algorithm, message.signed(), message.signature())
        .map_err(|_| SignatureFault::Mismatch)
}

/// Converts a time. Times before 1970, when nothing was signed, count as 1970.
fn unix_time(now: Timestamp) -> UnixTime {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    UnixTime::since_unix_epoch(Duration::from_secs(seconds))
}

/// The algorithm of version 1, only for messages. webpki rightly does not know SHA-1, so no certificate that
/// is signed with it is accepted.
#[derive(Debug)]
struct Sha1WithRsa;

impl SignatureVerificationAlgorithm for Sha1WithRsa {
    fn public_key_alg_id(&self) -> AlgorithmIdentifier {
        alg_id::RSA_ENCRYPTION
    }

    /// Returns 1.2.840.113549.1.1.5, with NULL parameters.
    /// <https://www.rfc-editor.org/rfc/rfc8017#appendix-A.2.4>
    fn signature_alg_id(&self) -> AlgorithmIdentifier {
        const SHA1_WITH_RSA: &[u8] =
            &[0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x05, 0x05, 0x00];
        AlgorithmIdentifier::from_slice(SHA1_WITH_RSA)
    }

    fn verify_signature(
        &self,
        public_key: &[u8],
        message: &[u8],
        signature: &[u8],
    ) -> Result<(), InvalidSignature> {
        UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, public_key)
            .verify(message, signature)
            .map_err(|_| InvalidSignature)
    }
}
