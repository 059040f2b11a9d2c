use super::*;

/// Certificates with a clock and a host that counts its requests.
struct CertificateWorld {
    certificates: CertificateReader,
    asked: Arc<AtomicUsize>,
    later: Arc<AtomicI64>,
}

impl CertificateWorld {
    fn answering(
        answer: impl Fn(usize, &CertificateUrl) -> Result<String, Failure> + Send + Sync + 'static,
    ) -> Self {
        let (asked, later) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicI64::new(0)));
        let clock = {
            let later = Arc::clone(&later);
            InstanceClock::from_fn(move || now() + SignedDuration::from_hours(later.load(Ordering::SeqCst)))
        };
        let count = Arc::clone(&asked);
        let certificates = CertificateReader::new(clock, move |url| {
            let answer = answer(count.fetch_add(1, Ordering::SeqCst), &url);
            async move {
                tokio::task::yield_now().await;
                answer
            }
        });
        Self { certificates, asked, later }
    }

    async fn ask(&self, url: &CertificateUrl) -> Result<Arc<Certificate>, SendResult> {
        let until = Instant::now() + Duration::from_mins(1);
        let mut answers = self.certificates.look_up(BTreeSet::from([url]), until).await;
        answers.remove(url).unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn pass_hours(&self, hours: i64) {
        self.later.fetch_add(hours, Ordering::SeqCst);
    }
}

fn url(number: usize) -> CertificateUrl {
    let text = format!("https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-{number:032x}.pem");
    CertificateUrl::of(&text, &arn(TOPIC)).unwrap()
}

fn unreachable() -> Failure {
    Failure::ours(FailureClass::Transient, "Unreachable")
}

#[tokio::test]
async fn are_fetched_once_a_day() {
    let world = CertificateWorld::answering(|_, _| Ok(SNS.to_owned()));
    for (hours, asked) in [(0, 1), (0, 1), (23, 1), (1, 2), (0, 2), (25, 3)] {
        world.pass_hours(hours);
        assert_eq!(world.ask(&url(1)).await.as_deref(), Ok(&certificate(SNS)));
        assert_eq!(world.asked(), asked);
    }
}

#[tokio::test(start_paused = true)]
async fn of_one_batch_are_each_fetched_once() {
    let world = CertificateWorld::answering(|_, _| Ok(SNS.to_owned()));
    let urls: Vec<_> = (0..6).map(url).collect();
    let until = Instant::now() + Duration::from_mins(1);
    let answers = world.certificates.look_up(urls.iter().collect(), until).await;
    assert_eq!((answers.len(), world.asked()), (6, 6));
    assert!(answers.values().all(Result::is_ok));
}

#[tokio::test]
async fn are_at_most_sixteen_and_the_oldest_goes_first() {
    let world = CertificateWorld::answering(|_, _| Ok(SNS.to_owned()));
    for number in 0..17 {
        world.ask(&url(number)).await.unwrap();
        world.pass_hours(1);
    }
    assert_eq!(format!("{:?}", world.certificates), "CertificateReader { kept: 16, .. }");
    let asked = world.asked();
    world.ask(&url(16)).await.unwrap();
    world.ask(&url(1)).await.unwrap();
    assert_eq!(world.asked(), asked);
    world.ask(&url(0)).await.unwrap();
    assert_eq!(world.asked(), asked + 1);
}

#[tokio::test]
async fn that_could_not_be_had_are_asked_for_again() {
    let too_long = format!("{SNS}{}", " ".repeat(MAX_CERTIFICATE_BYTES));
    let unreadable = || SendResult::Failed(Failure::ours(FailureClass::Transient, "CertificateUnreadable"));
    let world = CertificateWorld::answering(move |asked, _| match asked {
        0 => Err(unreachable()),
        1 => Ok("<html>maintenance</html>".to_owned()),
        2 => Ok(too_long.clone()),
        _ => Ok(SNS.to_owned()),
    });
    assert_eq!(world.ask(&url(1)).await, Err(SendResult::Failed(unreachable())));
    assert_eq!(world.ask(&url(1)).await, Err(unreadable()));
    assert_eq!(world.ask(&url(1)).await, Err(unreadable()));
    assert_eq!(world.ask(&url(1)).await.as_deref(), Ok(&certificate(SNS)));
}

#[tokio::test(start_paused = true)]
async fn are_not_waited_for_beyond_the_time() {
    let clock = InstanceClock::from_fn(now);
    let never = CertificateReader::new(clock, |_| std::future::pending());
    let one = url(1);
    let late = Failure::ours(FailureClass::Transient, "DeadlineExceeded");
    for (wait, expected) in [(20, SendResult::Failed(late)), (0, SendResult::NotStarted)] {
        let until = Instant::now() + Duration::from_millis(wait);
        let answers = never.look_up(BTreeSet::from([&one]), until).await;
        assert_eq!(answers.get(&one), Some(&Err(expected)));
    }
}
