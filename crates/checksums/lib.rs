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
pub struct Digest(DigestState);

#[derive(Clone)]
enum DigestState {
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
            CrcAlgorithm::Crc32IsoHdlc => DigestState::Crc32(crc32fast::Hasher::new()),
            CrcAlgorithm::Crc32Iscsi => DigestState::Crc32C(CRC32C.digest()),
            CrcAlgorithm::Crc64Nvme => DigestState::Crc64Nvme(CRC64NVME.digest()),
        })
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            DigestState::Crc32(digest) => digest.update(bytes),
            DigestState::Crc32C(digest) => digest.update(bytes),
            DigestState::Crc64Nvme(digest) => digest.update(bytes),
        }
    }

    /// Returns the checksum of all bytes. One of 32 bits is in the lower half.
    #[must_use]
    pub fn finalize(self) -> u64 {
        match self.0 {
            DigestState::Crc32(digest) => digest.finalize().into(),
            DigestState::Crc32C(digest) => digest.finalize().into(),
            DigestState::Crc64Nvme(digest) => digest.finalize(),
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

    /// Computes a checksum bit by bit, of 64 bits at most, with all bits set at the beginning and inverted at the end.
    fn bit_by_bit(polynomial: u64, width: u32, bytes: &[u8]) -> u64 {
        let ones = u64::MAX >> (64 - width);
        let of_byte = |sum: u64, byte: &u8| {
            let step = |sum: u64, _| if sum & 1 == 1 { (sum >> 1) ^ polynomial } else { sum >> 1 };
            (0..8).fold(sum ^ u64::from(*byte), step)
        };
        bytes.iter().fold(ones, of_byte) ^ ones
    }

    /// From 16 to 256 bytes on, depending on the processor, its own instructions compute them.
    #[test]
    fn checksums_of_any_length_are_those_that_are_computed_bit_by_bit() {
        let bytes: Vec<u8> =
            (0..70_000_u32).map(|at| at.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        // The catalogue's polynomials, reversed.
        let known = [
            (CrcAlgorithm::Crc32IsoHdlc, 0xedb8_8320, 32),
            (CrcAlgorithm::Crc32Iscsi, 0x82f6_3b78, 32),
            (CrcAlgorithm::Crc64Nvme, 0x9a6c_9329_ac4b_c9b5, 64),
        ];
        for (algorithm, polynomial, width) in known {
            for length in [0, 1, 15, 16, 17, 63, 64, 127, 128, 129, 255, 256, 1_000, 4_096, 70_000] {
                let expected = bit_by_bit(polynomial, width, &bytes[..length]);
                for cut in [0, 1, 7, 64, 129, 4_095].into_iter().filter(|cut| *cut <= length) {
                    let mut digest = Digest::new(algorithm);
                    digest.update(&bytes[..cut]);
                    digest.update(&bytes[cut..length]);
                    assert_eq!(digest.finalize(), expected, "{algorithm:?} of {length} bytes cut at {cut}");
                }
            }
        }
    }

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
