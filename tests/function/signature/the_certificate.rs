use super::*;

#[test]
fn must_be_one_of_sns() {
    let foreign = Err(SignatureFault::ForeignCertificate);
    let mismatch = Err(SignatureFault::Mismatch);
    for (name, pem, expected) in [
        ("sns", SNS, Ok(())),
        ("opt-in", data!("opt-in.pem"), Ok(())),
        ("chain", data!("chain.pem"), Ok(())),
        ("other-region", data!("other-region.pem"), foreign),
        ("wildcard", data!("wildcard.pem"), foreign),
        ("stranger", data!("stranger.pem"), foreign),
        ("common-name", data!("common-name.pem"), foreign),
        ("authority", data!("authority.pem"), foreign),
        ("client", data!("client.pem"), foreign),
        ("other-chain", data!("other-chain.pem"), Err(SignatureFault::BrokenChain)),
        ("other-key", data!("other-key.pem"), mismatch),
        ("weak", data!("weak.pem"), mismatch),
        ("elliptic", data!("elliptic.pem"), mismatch),
    ] {
        for text in SIGNED {
            assert_eq!(check(text, pem), expected, "{name}");
        }
    }
}

#[test]
fn must_have_a_key_of_2048_bits() {
    assert_eq!(check(data!("v2-weak.json"), data!("weak.pem")), Err(SignatureFault::Mismatch));
}

#[test]
fn must_be_valid_now() {
    for (time, expected) in [
        ("2025-12-31T23:59:59Z", Err(SignatureFault::OutdatedCertificate)),
        ("2026-01-01T00:00:00Z", Ok(())),
        ("2046-01-01T00:00:00Z", Ok(())),
        ("2046-01-01T00:00:01Z", Err(SignatureFault::OutdatedCertificate)),
        ("1969-12-31T23:59:59Z", Err(SignatureFault::OutdatedCertificate)),
        ("9999-12-30T00:00:00Z", Err(SignatureFault::OutdatedCertificate)),
    ] {
        for pem in [SNS, data!("chain.pem")] {
            assert_eq!(check_at(SIGNED[2], pem, time.parse().unwrap()), expected, "{time}");
        }
    }
}

#[test]
fn must_be_readable() {
    let body: String = SNS.lines().filter(|line| !line.starts_with('-')).collect();
    let der = STANDARD.decode(body).unwrap();
    let cut = STANDARD.encode(&der[..der.len() - 1]);
    for pem in [
        "",
        "<html>",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n",
        data!("key.pem"),
        &SNS[..SNS.len() / 2],
        &format!("{SNS}-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n"),
        &format!("-----BEGIN CERTIFICATE-----\n{cut}\n-----END CERTIFICATE-----\n"),
    ] {
        assert_eq!(Certificate::from_pem(pem), Err(NotACertificate), "{pem}");
    }
}
