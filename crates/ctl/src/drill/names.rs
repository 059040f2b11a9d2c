//! The names of a drill's resources. All begin with `<stack>-drill-`, the only prefix that the template permits.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

use redrive_core::arn::Arn;

/// The tag of all resources of a drill; its value is the stack's name.
pub(super) const DRILL_TAG: &str = "sns-redrive-drill";

/// The tag with the ARN of the dead-letter queue that a drill uses.
pub(super) const QUEUE_TAG: &str = "sns-redrive-drill-queue";

/// The tag of the topic with the state of the letters, and its two values. A topic without it had no message.
pub(super) const LETTERS_TAG: &str = "sns-redrive-drill-letters";
pub(super) const ON_THE_WAY: &str = "on-the-way";
pub(super) const SETTLED: &str = "settled";

/// The longest name of a queue.
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-queues.html>
const MAX_NAME: usize = 80;

/// The digits of a drill's id.
const DIGITS: usize = 8;

/// The end of the names of FIFO topics and queues.
pub(super) const FIFO: &str = ".fifo";

/// One drill of a stack, by its names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DrillNames {
    pub(super) id: String,
    prefix: String,
    partition: String,
    region: String,
    account: String,
    /// True if the dead-letter queue is FIFO. Then topic and queues are too, since SNS needs all of the same type.
    pub(super) is_fifo: bool,
}

/// The prefix of the names of every drill of a stack.
pub(super) fn prefix(stack: &str) -> String {
    format!("{stack}-drill-")
}

/// Returns the id of the drill of this stack that a name belongs to, if any.
pub(super) fn id_in(stack: &str, name: &str) -> Option<String> {
    let rest = name.strip_prefix(&prefix(stack))?;
    let (id, part) = rest.split_at_checked(DIGITS)?;
    let is_id = id.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    let part = part.strip_suffix(FIFO).unwrap_or(part);
    (is_id && ["", "-broken", "-healthy", "-asked", "-a"].contains(&part)).then(|| id.to_owned())
}

/// Returns a new id.
pub(super) fn new_id() -> String {
    // The keys of a hasher are the only source of randomness in the standard library.
    let random = RandomState::new().build_hasher().finish() & 0xffff_ffff;
    format!("{random:0DIGITS$x}")
}

impl DrillNames {
    /// Returns the names of a drill, in the account and region of the dead-letter queue.
    ///
    /// # Errors
    ///
    /// The stack's name is too long for names of queues.
    pub(super) fn new(stack: &str, id: &str, queue: &Arn) -> Result<Self, String> {
        let part = |number| queue.as_str().split(':').nth(number).unwrap_or_default().to_owned();
        let names = Self {
            id: id.to_owned(),
            prefix: prefix(stack),
            partition: part(1),
            region: part(3),
            account: part(4),
            is_fifo: queue.is_fifo(),
        };
        let longest = names.healthy().len();
        if longest > MAX_NAME {
            let most = stack.len().saturating_sub(longest - MAX_NAME);
            return Err(format!(
                "the name of the stack is too long for a drill, whose queues begin with it: it may have {most} \
                 characters at most"
            ));
        }
        Ok(names)
    }

    /// Returns the name of the resource for a purpose.
    fn name(&self, purpose: &str) -> String {
        let end = if self.is_fifo { FIFO } else { "" };
        format!("{}{}{purpose}{end}", self.prefix, self.id)
    }

    pub(super) fn topic(&self) -> String {
        self.name("")
    }

    /// Returns the name of the queue that is deleted and created again.
    pub(super) fn broken(&self) -> String {
        self.name("-broken")
    }

    /// Returns the name of the queue that works all the time.
    pub(super) fn healthy(&self) -> String {
        self.name("-healthy")
    }

    /// Returns the name of the standard queue for the questions to SQS.
    pub(super) fn asked(&self) -> String {
        format!("{}{}-asked", self.prefix, self.id)
    }

    /// Returns the name of the FIFO queue for the questions to SQS. It is not longer than the others.
    pub(super) fn asked_in_order(&self) -> String {
        format!("{}{}-a{FIFO}", self.prefix, self.id)
    }

    pub(super) fn account(&self) -> &str {
        &self.account
    }

    pub(super) fn topic_arn(&self) -> String {
        let Self { partition, region, account, .. } = self;
        format!("arn:{partition}:sns:{region}:{account}:{}", self.topic())
    }

    pub(super) fn queue_arn(&self, name: &str) -> String {
        let Self { partition, region, account, .. } = self;
        format!("arn:{partition}:sqs:{region}:{account}:{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Arn {
        "arn:aws-cn:sqs:cn-north-1:123456789012:letters".parse().unwrap()
    }

    #[test]
    fn all_names_begin_with_what_the_template_grants() {
        let fifo = format!("{}.fifo", queue()).parse().unwrap();
        for (queue, end) in [(queue(), ""), (fifo, ".fifo")] {
            let names = DrillNames::new("payments", &new_id(), &queue).unwrap();
            let own = [names.topic(), names.broken(), names.healthy()];
            assert!(own.iter().all(|name| name.ends_with(end) && name.contains(".fifo") == names.is_fifo));
            for name in own.into_iter().chain([names.asked(), names.asked_in_order()]) {
                assert!(name.len() <= names.healthy().len(), "{name}");
                assert!(name.starts_with("payments-drill-"), "{name}");
                assert_eq!(id_in("payments", &name), Some(names.id.clone()));
            }
        }
        let names = DrillNames::new("payments", &new_id(), &queue()).unwrap();
        assert_eq!(names.topic_arn(), format!("arn:aws-cn:sns:cn-north-1:123456789012:{}", names.topic()));
        assert_eq!(names.queue_arn("one"), "arn:aws-cn:sqs:cn-north-1:123456789012:one");
    }

    #[test]
    fn names_of_others_are_no_drills() {
        for name in [
            "payments-drill",
            "payments-drill-",
            "payments-drill-7f3a51c",
            "payments-drill-7f3a51c2-other",
            "payments-drill-7f3a51c2-other.fifo",
            "payments-drill-7f3a51cz",
            "payments-drill-drill-7f3a51c2",
            "billing-drill-7f3a51c2",
        ] {
            assert_eq!(id_in("payments", name), None, "{name}");
        }
    }

    #[test]
    fn a_stack_with_a_long_name_is_told_how_long_it_may_be() {
        assert_eq!(DrillNames::new(&"s".repeat(57), "7f3a51c2", &queue()).unwrap().healthy().len(), 80);
        let said = DrillNames::new(&"s".repeat(58), "7f3a51c2", &queue()).unwrap_err();
        assert!(said.ends_with("57 characters at most"), "{said}");
    }
}
