use super::*;

const NAME: &str = "SimpleNotificationService-0123456789abcdef0123456789abcdef.pem";

#[test]
fn is_taken_in_the_region_of_the_topic() {
    for (host, topic) in [
        ("sns.eu-central-1.amazonaws.com", "arn:aws:sns:eu-central-1:123456789012:payments"),
        ("sns.ap-southeast-7.amazonaws.com", "arn:aws:sns:ap-southeast-7:123456789012:payments"),
        ("sns.us-gov-east-1.amazonaws.com", "arn:aws-us-gov:sns:us-gov-east-1:123456789012:payments"),
        ("sns.cn-northwest-1.amazonaws.com.cn", "arn:aws-cn:sns:cn-northwest-1:123456789012:payments"),
        ("sns.eusc-de-east-1.amazonaws.eu", "arn:aws-eusc:sns:eusc-de-east-1:123456789012:payments"),
        ("sns.us-iso-east-1.c2s.ic.gov", "arn:aws-iso:sns:us-iso-east-1:123456789012:payments"),
        ("sns.us-isob-east-1.sc2s.sgov.gov", "arn:aws-iso-b:sns:us-isob-east-1:123456789012:payments"),
        ("sns.eu-isoe-west-1.cloud.adc-e.uk", "arn:aws-iso-e:sns:eu-isoe-west-1:123456789012:payments"),
        ("sns.us-isof-south-1.csp.hci.ic.gov", "arn:aws-iso-f:sns:us-isof-south-1:123456789012:payments"),
    ] {
        let text = format!("https://{host}/{NAME}");
        let url = CertificateUrl::of(&text, &arn(topic)).unwrap();
        assert_eq!(url.as_str(), text);
    }
}

#[test]
fn is_refused_in_every_other_form() {
    let host = "sns.eu-central-1.amazonaws.com";
    let hosts = [
        // These hosts belong to somebody else.
        "example.org",
        "localhost",
        "169.254.169.254",
        "[::1]",
        "sns.eu-central-1.amazonaws.com.example.org",
        "sns.eu-central-1.amazonaws.com.cn",
        "sns.eu-central-1.amazonaws.co",
        "example.org.sns.eu-central-1.amazonaws.com",
        "evilsns.eu-central-1.amazonaws.com",
        "sns-eu-central-1.amazonaws.com",
        "sns.eu-central-1.evilamazonaws.com",
        "sns.eu-central-1.amazonaws.com\\.example.org",
        "sns.eu-central-1.amazonaws.com%2eexample.org",
        "sns.eu-central-1.amazonaws.com%00.example.org",
        // These hosts are AWS's, with files of other people.
        "s3.eu-central-1.amazonaws.com",
        "sns.s3.eu-central-1.amazonaws.com",
        "sns.s3.amazonaws.com",
        "bucket.s3.amazonaws.com",
        // These hosts are SNS's, but not the topic's.
        "sns.eu-west-1.amazonaws.com",
        "sns.us-east-1.amazonaws.com",
        "sns.amazonaws.com",
        // This is the right host, in forms that some parser normalises.
        "SNS.eu-central-1.amazonaws.com",
        "sns.EU-CENTRAL-1.amazonaws.com",
        "sns.eu-central-1.amazonaws.com.",
        "sns.eu-central-1.amazonaws.com:443",
        "sns.eu-central-1.amazonaws.com:8443",
        "sns.eu-central-1.amazonaws.com:",
        "user@sns.eu-central-1.amazonaws.com",
        "sns.eu-central-1.amazonaws.com@example.org",
        "sns.eu-central-1.amazonaws.com:x@example.org",
        "sns.eu-central-1.amazonaws.com#@example.org",
        "sns.eu-central-1.amazonaws.com?@example.org",
        "sns.eu-central-1。amazonaws.com",
        "snѕ.eu-central-1.amazonaws.com",
        "sns.eu-central-1.amazonaws.com\u{200b}",
        "sns.eu-central-1.ama\tzonaws.com",
        "s%6es.eu-central-1.amazonaws.com",
        "",
    ];
    let paths = [
        "",
        "/",
        "/evil.pem",
        "/SimpleNotificationService-.pem",
        "/SimpleNotificationService.pem",
        "/SimpleNotificationService-0123456789abcdef",
        "/SimpleNotificationService-0123456789ABCDEF.pem",
        "/SimpleNotificationService-0123456789abcdeg.pem",
        "/simplenotificationservice-0123456789abcdef.pem",
        "/SimpleNotificationService-0123456789abcdef.pem?x=1",
        "/SimpleNotificationService-0123456789abcdef.pem#x",
        "/?Action=x&y=/SimpleNotificationService-0123456789abcdef.pem",
        "//SimpleNotificationService-0123456789abcdef.pem",
        "/x/SimpleNotificationService-0123456789abcdef.pem",
        "/x/../SimpleNotificationService-0123456789abcdef.pem",
        "/./SimpleNotificationService-0123456789abcdef.pem",
        "/SimpleNotificationService-../../x.pem",
        "/SimpleNotificationService-%30.pem",
        "/SimpleNotificationService-0/../x.pem",
        "\\SimpleNotificationService-0123456789abcdef.pem",
        "/SimpleNotificationService-0123456789abcdef.pem\n",
        "/SimpleNotificationService-0123456789abcdef.pem ",
        "/SimpleNotificationService-0123456789abcdef.pem%20",
        "/SimpleNotificationService-０.pem",
    ];
    let schemes = ["http", "HTTPS", "ftp", "file", " https", "https:https", "javascript", ""];
    let mut urls: Vec<String> = Vec::new();
    urls.extend(hosts.iter().map(|host| format!("https://{host}/{NAME}")));
    urls.extend(paths.iter().map(|path| format!("https://{host}{path}")));
    urls.extend(schemes.iter().map(|scheme| format!("{scheme}://{host}/{NAME}")));
    urls.push(format!("https:/{host}/{NAME}"));
    urls.push(format!("https:\\\\{host}\\{NAME}"));
    urls.push(format!("//{host}/{NAME}"));
    urls.push(format!("https://{host}/SimpleNotificationService-{}.pem", "0".repeat(65)));
    urls.push(String::new());
    for url in urls {
        let refused = SignatureFault::ForeignCertificateUrl;
        assert_eq!(CertificateUrl::of(&url, &arn(TOPIC)), Err(refused), "{url:?}");
        let letter = with(SIGNED[3], "SigningCertURL", Some(json!(url)));
        assert_eq!(check(&letter, SNS), Err(refused), "{url:?}");
        assert_eq!(check(&event(&letter).to_string(), SNS), Err(refused), "{url:?}");
    }
}

/// The topic also comes from the letter.
#[test]
fn is_refused_where_the_topic_names_no_region() {
    for (partition, region) in [
        ("aws", "s3"),
        ("aws", "s3-eu-west-1"),
        ("aws", "s3-website-eu-west-1"),
        ("aws", "eu"),
        ("aws", "eu-1"),
        ("aws", "eu-central-"),
        ("aws", "eu--1"),
        ("aws", "eu-central-100"),
        ("aws", "EU-central-1"),
        ("aws", "eu-central-1.example.org"),
        ("aws", "example.org/"),
        ("aws", "example.org#"),
        ("aws", "a@example.org"),
        ("aws", ""),
        ("aws", "."),
        ("aws", "еu-central-1"),
        ("evil", "eu-central-1"),
        ("aws-iso", "us-iso-east-1"),
    ] {
        let topic = format!("arn:{partition}:sns:{region}:123456789012:payments");
        for suffix in ["amazonaws.com", "amazonaws.com.cn"] {
            let url = format!("https://sns.{region}.{suffix}/{NAME}");
            let letter = with(SIGNED[3], "SigningCertURL", Some(json!(url)));
            let letter = with(&letter, "TopicArn", Some(json!(topic)));
            let Err(fault) = SignedMessage::read(&letter) else { panic!("{url}") };
            match topic.parse() {
                Ok(topic) => {
                    assert_eq!(fault, SignatureFault::ForeignCertificateUrl, "{url}");
                    assert_eq!(CertificateUrl::of(&url, &topic), Err(fault), "{url}");
                }
                // This is not even an ARN.
                Err(_) => assert_eq!(fault, SignatureFault::Malformed, "{url}"),
            }
        }
    }
    let url = format!("https://sns.eu-central-1.amazonaws.com/{NAME}");
    let queue = arn("arn:aws:sqs:eu-central-1:123456789012:payments");
    assert!(CertificateUrl::of(&url, &queue).is_err());
}
