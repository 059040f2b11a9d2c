use super::*;

async fn refused_at(url: &str, settings: &[(&str, &str)]) {
    refused_because(NEVER, url, settings).await;
}

async fn refused_because(why: &str, url: &str, settings: &[(&str, &str)]) {
    for protocol in ["http", "https"] {
        let world = FunctionWorld::new(settings);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, protocol, url, DLQ);
        refused(&world, &RecordBuilder::envelope("a"), why, &ASKED).await;
    }
}

/// Public addresses, private addresses and names are all refused. Allowing loopback changes nothing.
#[tokio::test]
async fn is_refused_wherever_it_leads_where_letters_go_to_no_web_server() {
    for url in ["https://8.8.8.8/", "http://127.0.0.1/", "https://hooks.example.com/payments"] {
        for more in [("HTTP_TARGETS", "off"), ("ALLOW_LOOPBACK_HTTP", "true")] {
            let world = FunctionWorld::new(&[("HTTP_TARGETS", "off"), more]);
            world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "https", url, DLQ);
            refused(
                &world,
                &RecordBuilder::envelope("a"),
                "HTTP_TARGETS is off: set it to on to deliver to web servers",
                &ASKED,
            )
            .await;
        }
    }
}

/// Every spelling of 169.254.169.254 and similar addresses is refused. Allowing loopback changes nothing.
#[tokio::test]
async fn at_the_metadata_of_the_instance_is_refused_in_every_spelling() {
    for url in [
        "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
        "https://169.254.169.254/",
        "http://169.254.169.254:80/",
        "http://2852039166/latest/",
        "http://0xa9fea9fe/",
        "http://0xa9.0xfe.0xa9.0xfe/",
        "http://0251.0376.0251.0376/",
        "http://169.254.43518/",
        "http://169.16689662/",
        "http://169。254。169。254/",
        "http://①⑥⑨.254.169.254/",
        "http://%31%36%39.254.169.254/",
        "http://169.254.169.254./",
        "http://[::ffff:169.254.169.254]/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://[0:0:0:0:0:ffff:a9fe:a9fe]/",
        "http://[64:ff9b::a9fe:a9fe]/",
        "http://[2002:a9fe:a9fe::1]/",
        "http://[fe80::a9fe:a9fe]/",
        // These serve the credentials of containers and of Lambda's neighbours.
        "http://169.254.170.2/v2/credentials/",
        "http://169.254.170.23/v1/credentials",
        "http://0.0.0.0/",
        "http://0/",
        "http://255.255.255.255/",
        "http://[::]/",
        "http://[fd00:ec2::254]/latest/",
        "http://[fd00:ec2::23]/v1/credentials",
        "http://[fec0::1]/",
        "http://[ff02::1]/",
        "http://224.0.0.1/",
    ] {
        refused_at(url, &[]).await;
        refused_at(url, &[("HTTP_TARGETS", "private")]).await;
        refused_at(url, &[("ALLOW_LOOPBACK_HTTP", "true")]).await;
    }
}

/// Lambda's runtime API answers on loopback.
#[tokio::test]
async fn at_loopback_is_refused() {
    let server = TestWebServer::answering(200);
    for host in ["127.0.0.1", "127.1", "127.8.8.8", "2130706433", "0x7f000001", "[::1]", "[::ffff:127.0.0.1]"]
    {
        let url = format!("{}/2018-06-01/runtime", server.url_of("http", host));
        refused_at(&url, &[]).await;
        refused_at(&url, &[("HTTP_TARGETS", "private")]).await;
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn in_a_private_network_is_refused_and_the_refusal_says_how_to_allow_it() {
    for host in [
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "100.64.0.1",
        "[fd00::1]",
        "[fc00::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::10.0.0.1]",
    ] {
        refused_because(PRIVATE, &format!("http://{host}/hook"), &[]).await;
    }
}

#[tokio::test]
async fn by_a_name_that_leads_to_loopback_is_refused_when_the_name_is_resolved() {
    let server = TestWebServer::answering(200);
    for host in ["localhost", "LOCALHOST"] {
        for settings in [&[][..], &[("HTTP_TARGETS", "private")]] {
            refused_at(&server.url_of("http", host), settings).await;
            refused_at(&server.url_of("https", host), settings).await;
        }
    }
    assert_eq!(server.connections(), 0);
}

/// The same URL is reached if it is allowed. So only the guard had blocked it.
#[tokio::test]
async fn is_reached_where_loopback_is_allowed() {
    let server = TestWebServer::answering(200);
    for host in ["localhost", "127.0.0.1", "127.1", "[::ffff:127.0.0.1]"] {
        let world = FunctionWorld::new(&[("ALLOW_LOOPBACK_HTTP", "true")]);
        let url = server.url_of("http", host);
        world.cloud.subscribe_endpoint(SUBSCRIPTION, TOPIC, "http", &url, DLQ);
        let ran = world.run([&RecordBuilder::envelope("a")]).await;
        assert_eq!(ran.outcomes(), ["a delivered"], "{host}");
    }
    assert_eq!(server.seen().len(), 4);
}
