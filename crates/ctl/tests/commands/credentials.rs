//! The sources of credentials of the built program. They must be the same as those of the AWS CLI.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::thread::JoinHandle;

use redrive_support::ClosedPort;

use super::{TextFile, program};

const BUCKET: &str = "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>";
const REGION: (&str, &str) = ("AWS_REGION", "eu-central-1");
/// SHA-1 of `ops`, the name of a session: the AWS CLI keeps its token below it.
const SSO_TOKEN: &str = ".aws/sso/cache/c62973cc56845b0e473e9e3c40b6e1f0a84662ef.json";
const SSO: &str = "[profile ops]
sso_session = ops
sso_account_id = 123456789012
sso_role_name = Operator
region = eu-central-1
[sso-session ops]
sso_region = eu-central-1
sso_start_url = https://example.awsapps.com/start
";
/// SHA-256 of the session that the profile names.
const LOGIN_TOKEN: &str =
    ".aws/login/cache/571367cfd908f035219adec984da31585872a052274eb3939cb69758d3bea985.json";
const LOGIN: &str = "[profile ops]
login_session = arn:aws:sts::123456789012:assumed-role/Admin/ops
region = eu-central-1
";

/// A home folder with one file in it, gone when it is dropped.
struct HomeFolder(PathBuf);

impl HomeFolder {
    fn with(name: &str, file: &str, text: &str) -> Self {
        let home = std::env::temp_dir().join(format!("redrivectl-{}-{name}", std::process::id()));
        let path = home.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        Self(home)
    }
}

impl Drop for HomeFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts a server that gives one of these answers to each request. Returns the lines of the requests' heads.
fn server(answers: Vec<String>) -> (String, JoinHandle<Vec<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answering = std::thread::spawn(move || {
        let answer = |body: String| {
            let (mut stream, _) = listener.accept().unwrap();
            let lines = BufReader::new(&stream).lines().map_while(Result::ok);
            let head = lines.take_while(|line| !line.is_empty()).collect();
            let length = body.len();
            write!(stream, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
                .unwrap();
            head
        };
        answers.into_iter().map(answer).collect()
    });
    (url, answering)
}

/// Lists an empty archive, and returns the requests that led to it.
fn requests_of_listing(
    answers: Vec<String>,
    options: &[&str],
    variables: &[(&str, &str)],
) -> Vec<Vec<String>> {
    let (url, answering) = server([answers, vec![BUCKET.to_owned()]].concat());
    let args = ["archive", "list", "--archive", "s3://my-bucket/a", "--endpoint-url", &url];
    let endpoint = [("AWS_ENDPOINT_URL_SSO", url.as_str()), ("AWS_ENDPOINT_URL_STS", &url)];
    let ran = program(&[&args, options].concat(), &[&endpoint, variables].concat());
    let err = String::from_utf8_lossy(&ran.stderr);
    assert_eq!((String::from_utf8_lossy(&ran.stdout).as_ref(), err.as_ref()), ("0 letters.\n", ""));
    answering.join().unwrap()
}

/// The value of a header.
fn header<'a>(head: &'a [String], name: &str) -> &'a str {
    let fields = head.iter().filter_map(|line| line.split_once(": "));
    fields
        .filter(|(field, _)| field.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .next()
        .unwrap_or_default()
}

fn assert_signed_by(head: &[String], key: &str) {
    let signed = header(head, "authorization");
    assert!(
        signed.contains(&format!("Credential={key}/")) && signed.contains("/eu-central-1/s3/"),
        "{signed}"
    );
}

#[test]
fn profile_and_endpoint_are_those_of_the_command_line() {
    let config = TextFile::of("config", "[profile ops]\nregion = eu-central-1\n");
    let credentials =
        TextFile::of("credentials", "[ops]\naws_access_key_id = AKIDOPS\naws_secret_access_key = secret\n");
    let files = [
        ("AWS_CONFIG_FILE", config.path()),
        ("AWS_SHARED_CREDENTIALS_FILE", credentials.path()),
        // A named profile takes precedence over these variables, as in the AWS CLI.
        ("AWS_ACCESS_KEY_ID", "AKIDOTHER"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let requests = requests_of_listing(vec![], &["--profile", "ops"], &files);
    assert!(
        requests[0][0].starts_with("GET /my-bucket/?"),
        "buckets are a part of the path: {}",
        requests[0][0]
    );
    assert_signed_by(&requests[0], "AKIDOPS");
}

#[test]
fn a_profile_of_identity_center_uses_the_token_of_its_session() {
    let token = "{\"accessToken\": \"of the session\", \"expiresAt\": \"2999-01-01T00:00:00Z\"}";
    let (home, config) = (HomeFolder::with("sso", SSO_TOKEN, token), TextFile::of("sso-config", SSO));
    let credentials = "{\"roleCredentials\": {\"accessKeyId\": \"AKIDSSO\", \"secretAccessKey\": \"secret\", \
                       \"sessionToken\": \"session\", \"expiration\": 32503680000000}}";
    let variables = [("HOME", home.0.to_str().unwrap()), ("AWS_CONFIG_FILE", config.path())];
    for (options, profile) in [(&["--profile", "ops"][..], None), (&[], Some(("AWS_PROFILE", "ops")))] {
        let variables: Vec<_> = variables.into_iter().chain(profile).collect();
        let requests = requests_of_listing(vec![credentials.to_owned()], options, &variables);
        let asked = &requests[0];
        assert_eq!(
            asked[0],
            "GET /federation/credentials?role_name=Operator&account_id=123456789012 HTTP/1.1"
        );
        assert_eq!(header(asked, "x-amz-sso_bearer_token"), "of the session");
        assert_signed_by(&requests[1], "AKIDSSO");
    }
}

#[test]
fn a_profile_that_assumes_a_role_may_rest_on_one_that_signs_in() {
    let token = "{\"accessToken\": \"of the session\", \"expiresAt\": \"2999-01-01T00:00:00Z\"}";
    let role = "[profile role]\nrole_arn = arn:aws:iam::210987654321:role/Redriver\nsource_profile = ops\n";
    let config = TextFile::of("role-config", &format!("{SSO}{role}region = eu-central-1\n"));
    let home = HomeFolder::with("role", SSO_TOKEN, token);
    let signed_in = "{\"roleCredentials\": {\"accessKeyId\": \"AKIDSSO\", \"secretAccessKey\": \"secret\", \
                     \"sessionToken\": \"session\", \"expiration\": 32503680000000}}";
    let assumed = "<AssumeRoleResponse xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\"><AssumeRoleResult>\
                   <Credentials><AccessKeyId>AKIDROLE</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>\
                   <SessionToken>session</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>\
                   </AssumeRoleResult></AssumeRoleResponse>";
    let variables = [("HOME", home.0.to_str().unwrap()), ("AWS_CONFIG_FILE", config.path())];
    let answers = [signed_in, assumed].map(str::to_owned).to_vec();
    let requests = requests_of_listing(answers, &["--profile", "role"], &variables);
    assert!(header(&requests[1], "authorization").contains("Credential=AKIDSSO/"), "{:?}", requests[1]);
    assert_signed_by(&requests[2], "AKIDROLE");
}

#[test]
fn a_profile_of_aws_login_uses_its_credentials() {
    let token = "{\"accessToken\": {\"accessKeyId\": \"AKIDLOGIN\", \"secretAccessKey\": \"secret\", \
                 \"sessionToken\": \"session\", \"accountId\": \"123456789012\", \
                 \"expiresAt\": \"2999-01-01T00:00:00Z\"}, \"tokenType\": \"aws_sigv4\", \
                 \"refreshToken\": \"refresh\", \"identityToken\": \"identity\", \
                 \"clientId\": \"arn:aws:signin:::devtools/same-device\", \"dpopKey\": \"none\"}";
    let (home, config) = (HomeFolder::with("login", LOGIN_TOKEN, token), TextFile::of("login-config", LOGIN));
    let variables = [("HOME", home.0.to_str().unwrap()), ("AWS_CONFIG_FILE", config.path())];
    let requests = requests_of_listing(vec![], &["--profile", "ops"], &variables);
    assert_signed_by(&requests[0], "AKIDLOGIN");
}

#[test]
fn a_profile_may_run_a_process() {
    let credentials = "{\"Version\": 1, \"AccessKeyId\": \"AKIDPROCESS\", \"SecretAccessKey\": \"secret\"}";
    let output = TextFile::of("process-output", credentials);
    let process = format!("[profile ops]\ncredential_process = /bin/cat {}\n", output.path());
    let config = TextFile::of("process-config", &process);
    let variables = [("AWS_CONFIG_FILE", config.path()), REGION];
    let requests = requests_of_listing(vec![], &["--profile", "ops"], &variables);
    assert_signed_by(&requests[0], "AKIDPROCESS");
}

#[test]
fn an_expired_session_says_how_to_sign_in() {
    let token = "{\"accessToken\": \"of the session\", \"expiresAt\": \"2001-01-01T00:00:00Z\"}";
    let (home, config) = (HomeFolder::with("expired", SSO_TOKEN, token), TextFile::of("expired-config", SSO));
    let variables = [("HOME", home.0.to_str().unwrap()), ("AWS_CONFIG_FILE", config.path())];
    let ran = program(&["archive", "list", "--archive", "s3://my-bucket", "--profile", "ops"], &variables);
    let err = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(1), "{err}");
    assert!(err.starts_with("redrivectl: no credentials of profile ops: "), "{err}");
    assert!(err.contains("expired"), "{err}");
    assert!(err.contains("aws sso login --profile ops"), "{err}");
}

#[test]
fn a_profile_that_does_not_exist_is_named() {
    let config = TextFile::of("other-config", "[profile ops]\nregion = eu-central-1\n");
    let file = ("AWS_CONFIG_FILE", config.path());
    for (option, variables) in [
        (&["--profile", "nope"][..], vec![file]),
        (&["--profile", "nope"], vec![file, REGION]),
        (&[], vec![file, ("AWS_PROFILE", "nope")]),
    ] {
        for args in
            [&["archive", "list", "--archive", "s3://my-bucket"][..], &["doctor", "--stack", "payments"]]
        {
            let ran = program(&[args, option].concat(), &variables);
            let err = String::from_utf8(ran.stderr).unwrap();
            assert!(ran.status.code() == Some(1) && err.contains("profile nope"), "{err}");
        }
    }
}

#[test]
fn a_server_that_takes_no_connection_is_named() {
    let closed = ClosedPort::new();
    let url = closed.url();
    let keys = [
        ("AWS_ACCESS_KEY_ID", "AKID"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        REGION,
        ("AWS_MAX_ATTEMPTS", "1"),
    ];
    let ran = program(&["archive", "list", "--archive", "s3://my-bucket", "--endpoint-url", &url], &keys);
    let err = String::from_utf8(ran.stderr).unwrap();
    assert!(err.starts_with(&format!("redrivectl: {url} does not answer (")), "{err}");
    assert_ne!(ran.status.code(), Some(0), "{err}");
}
