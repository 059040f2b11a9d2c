use super::*;

fn sign(signed: &str) -> String {
    let key = PrivatePkcs8KeyDer::from_pem_slice(data!("key.pem").as_bytes()).unwrap();
    let key = RsaKeyPair::from_pkcs8(key.secret_pkcs8_der()).unwrap();
    let mut signature = vec![0; key.public().modulus_len()];
    key.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature).unwrap();
    STANDARD.encode(signature)
}

fn message(message: &str, subject: Option<&str>) -> Value {
    let (id, time) = ("d3344452-ca4e-5849-9b44-70f435b0010d", "2026-11-01T11:59:58.351Z");
    let line = subject.map(|subject| format!("Subject\n{subject}\n")).unwrap_or_default();
    let signed = format!(
        "Message\n{message}\nMessageId\n{id}\n{line}Timestamp\n{time}\nTopicArn\n{TOPIC}\nType\nNotification\n"
    );
    json!({"Type": "Notification", "MessageId": id, "TopicArn": TOPIC, "Subject": subject,
        "Message": message, "Timestamp": time, "SignatureVersion": "2", "Signature": sign(&signed),
        "SigningCertURL": URL})
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn signed_by_sns_verifies_and_no_other(
        text in "(?s).{0,60}",
        subject in proptest::option::of("[^\\n\\r]{0,20}"),
        other in "(?s).{0,60}",
    ) {
        let letter = message(&text, subject.as_deref()).to_string();
        prop_assert_eq!(check(&letter, SNS), Ok(()));
        let altered = with(&letter, "Message", Some(json!(other)));
        let expected = if other == text { Ok(()) } else { Err(SignatureFault::Mismatch) };
        prop_assert_eq!(check(&altered, SNS), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn is_read_without_panic(text in any::<String>()) {
        let _ = SignedMessage::read(&text);
        let _ = Certificate::from_pem(&text);
        prop_assert!(CertificateUrl::of(&text, &arn(TOPIC)).is_err());
    }

    #[test]
    fn in_any_field_is_never_taken_for_signed(
        field in proptest::sample::select(vec!["Message", "MessageId", "Subject", "Timestamp",
            "TopicArn", "Type", "Signature", "SignatureVersion", "SigningCertURL"]),
        value in any::<String>(),
    ) {
        prop_assume!(envelope(SIGNED[3])[field] != json!(value));
        let altered = with(SIGNED[3], field, Some(json!(value)));
        prop_assert_ne!(check(&altered, SNS), Ok(()));
    }

    #[test]
    fn with_one_other_byte_is_never_signed_otherwise(at in 0..SIGNED[3].len(), byte in 0x20_u8..0x7f) {
        let mut bytes = SIGNED[3].as_bytes().to_vec();
        bytes[at] = byte;
        if let Ok(text) = String::from_utf8(bytes) && check(&text, SNS).is_ok() {
            let signed = |text: &str| {
                let envelope = envelope(text);
                ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
                    .map(|field| envelope[field].clone())
            };
            prop_assert_eq!(signed(&text), signed(SIGNED[3]));
        }
    }

    #[test]
    fn of_a_damaged_certificate_never_vouches_for_another_key(at in 0_usize..700, byte in any::<u8>()) {
        let body: String = data!("other-key.pem").lines().filter(|line| !line.starts_with('-')).collect();
        let mut der = STANDARD.decode(body).unwrap();
        der[at] = byte;
        let body = STANDARD.encode(der);
        let pem = format!("-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n");
        if let Ok(certificate) = Certificate::from_pem(&pem) {
            let message = SignedMessage::read(SIGNED[3]).unwrap();
            prop_assert!(verify(&message, &certificate, now()).is_err());
        }
    }
}
