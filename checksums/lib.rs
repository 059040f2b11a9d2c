//! The checksums that the AWS SDK computes over what it sends to S3, in the place of the crate `crc-fast`, which brings
//! the tables of a hundred others into the function: a tenth of its size on `x86_64`.
//!
//! It has what `aws-smithy-checksums` uses. If a newer version uses more, the build fails.

use std::fmt;

use crc::{CRC_32_ISCSI, CRC_64_NVME, Crc};

static CRC32C: Crc<u32> = Crc::<u32>::new(&CRC_32_ISCSI);
static CRC64NVME: Crc<u64> = Crc::<u64>::new(&CRC_64_NVME);

/// A checksum that [S3 knows](https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity.html).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CrcAlgorithm {
    /// CRC32, which the SDK sends and S3 answers by default.
    Crc32IsoHdlc,
    /// CRC32C.
    Crc32Iscsi,
    /// CRC64NVME.
    Crc64Nvme,
}

/// A checksum over bytes that come in pieces.
#[derive(Clone)]
pub struct Digest(State);

#[derive(Clone)]
enum State {
    /// By the processor's own instructions.
    Crc32(crc32fast::Hasher),
    Crc32C(crc::Digest<'static, u32>),
    Crc64Nvme(crc::Digest<'static, u64>),
}

impl Digest {
    /// Returns the checksum of no bytes.
    #[must_use]
    pub fn new(algorithm: CrcAlgorithm) -> Self {
        Self(match algorithm {
            CrcAlgorithm::Crc32IsoHdlc => State::Crc32(crc32fast::Hasher::new()),
            CrcAlgorithm::Crc32Iscsi => State::Crc32C(CRC32C.digest()),
            CrcAlgorithm::Crc64Nvme => State::Crc64Nvme(CRC64NVME.digest()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Crc32(digest) => digest.update(bytes),
            State::Crc32C(digest) => digest.update(bytes),
            State::Crc64Nvme(digest) => digest.update(bytes),
        }
    }

    /// Returns the checksum of all bytes. One of 32 bits is in the lower half.
    #[must_use]
    pub fn finalize(self) -> u64 {
        match self.0 {
            State::Crc32(digest) => digest.finalize().into(),
            State::Crc32C(digest) => digest.finalize().into(),
            State::Crc64Nvme(digest) => digest.finalize(),
        }
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Digest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The [catalogue](https://reveng.sourceforge.io/crc-catalogue/all.htm)'s check values.
    #[test]
    fn checksums_are_those_of_the_catalogue_however_the_bytes_are_cut() {
        let known = [
            (CrcAlgorithm::Crc32IsoHdlc, 0xcbf4_3926),
            (CrcAlgorithm::Crc32Iscsi, 0xe306_9283),
            (CrcAlgorithm::Crc64Nvme, 0xae8b_1486_0a79_9888),
        ];
        for (algorithm, checksum) in known {
            for cut in 0..=9 {
                let mut digest = Digest::new(algorithm);
                let (start, end) = b"123456789".split_at(cut);
                digest.update(start);
                digest.update(end);
                assert_eq!(digest.finalize(), checksum, "{algorithm:?}");
            }
        }
    }
}
