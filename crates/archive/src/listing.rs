//! Lists the objects of an archive in the order of their keys.

use std::collections::VecDeque;

use redrive_core::failure::Failure;

use super::bucket::{ArchiveBucket, KeyStretch};
use super::object::{ArchiveObject, day, queue_folder, queues_folder};
use super::select::Selection;
use super::selection_times::SelectionTimes;
use super::unread::{UnreadItem, WhyUnread};

/// The objects of an archive in the order of their keys: queue by queue, then by time. It holds one page of
/// them.
pub struct ArchiveListing {
    bucket: ArchiveBucket,
    times: SelectionTimes,
    /// The first key to list. Empty: from the beginning.
    first: String,
    /// The stretches of keys that are still to be listed. `None` until the queues are known.
    stretches: Option<VecDeque<KeyStretch>>,
    objects: VecDeque<ArchiveObject>,
    strangers: u64,
}

impl ArchiveListing {
    /// Lists every object in the queues and times of a selection, whatever its index says. The archive's
    /// prefix may have slashes at its ends.
    #[must_use]
    pub fn new(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, selection: &Selection) -> Self {
        let mut listing = Self::of(s3, bucket, prefix, selection.times());
        if let Some(queue) = selection.only_folder() {
            let folder = queue_folder(&listing.bucket.prefix, queue);
            listing.stretches = Some(listing.stretches(vec![folder]));
        }
        listing
    }

    /// Lists the objects of one queue from the key `first` up to, but without, the key `before`, or to the
    /// end of the queue. The key `first` may be the queue's folder.
    #[must_use]
    pub fn between(
        s3: aws_sdk_s3::Client,
        bucket: &str,
        prefix: &str,
        first: &str,
        before: Option<&str>,
    ) -> Self {
        let mut listing = Self::of(s3, bucket, prefix, SelectionTimes::default());
        let prefix = &listing.bucket.prefix;
        let name =
            first.strip_prefix(&**prefix).and_then(|rest| rest.strip_prefix("queue=")?.split_once('/'));
        let queue = name.map(|(name, _)| KeyStretch {
            folder: queue_folder(prefix, name).into(),
            after: before_key(first),
            before: before.map(str::to_owned),
        });
        first.clone_into(&mut listing.first);
        listing.stretches = Some(queue.into_iter().collect());
        listing
    }

    fn of(s3: aws_sdk_s3::Client, bucket: &str, prefix: &str, times: SelectionTimes) -> Self {
        let bucket = ArchiveBucket::new(s3, bucket, prefix);
        let (first, objects) = (String::new(), VecDeque::new());
        Self { bucket, times, first, stretches: None, objects, strangers: 0 }
    }

    /// Returns the stretch of the selected days in each queue's folder.
    fn stretches(&self, folders: Vec<String>) -> VecDeque<KeyStretch> {
        let (first, last) = self.times.days();
        let end = last.and_then(|last| last.tomorrow().ok());
        let stretch = |folder: String| KeyStretch {
            after: first.map_or(String::new(), |day| format!("{folder}date={day}")),
            before: end.map(|day| format!("{folder}date={day}/")),
            folder: folder.into(),
        };
        folders.into_iter().map(stretch).collect()
    }

    /// Returns the number of objects found so far under the prefix that do not belong to an archive.
    #[must_use]
    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    /// Returns the next object, or a prefix that could not be listed; the rest of that prefix is then
    /// skipped. Returns `None` at the end.
    pub async fn next(&mut self) -> Option<Result<ArchiveObject, UnreadItem>> {
        loop {
            if let Some(object) = self.objects.pop_front() {
                return Some(Ok(object));
            }
            if self.stretches.is_none() {
                // If listing the queues fails, the listing is at its end.
                self.stretches = Some(VecDeque::new());
                match queue_folders(&self.bucket).await {
                    Ok(folders) => self.stretches = Some(self.stretches(folders)),
                    Err(unread) => return Some(Err(unread)),
                }
            }
            let stretch = self.stretches.as_mut().and_then(VecDeque::pop_front)?;
            if let Err(unread) = self.list(stretch).await {
                return Some(Err(unread));
            }
        }
    }

    /// Lists one page of a stretch.
    async fn list(&mut self, stretch: KeyStretch) -> Result<(), UnreadItem> {
        let page = self.bucket.page(&stretch).await;
        let page = page.map_err(|failure| unlisted(&stretch.folder, failure))?;
        self.strangers += page.strangers;
        let objects = page.objects.into_iter().filter(|object| *object.key >= *self.first);
        self.objects.extend(objects.filter(|object| self.times.may_hold(object)));
        if let (Some(stretches), Some(last)) = (&mut self.stretches, page.last) {
            stretches.push_front(KeyStretch { after: last, ..stretch });
        }
        Ok(())
    }
}

/// Lists the folders of the days on which letters of a selection may have been archived, queue by queue and
/// in the order of time. The archive's prefix may have slashes at its ends.
///
/// # Errors
///
/// [`UnreadItem`] if a prefix could not be listed.
pub async fn days(
    s3: &aws_sdk_s3::Client,
    bucket: &str,
    prefix: &str,
    selection: &Selection,
) -> Result<Vec<String>, UnreadItem> {
    let bucket = ArchiveBucket::new(s3.clone(), bucket, prefix);
    let queues = match selection.only_folder() {
        Some(queue) => vec![queue_folder(&bucket.prefix, queue)],
        None => queue_folders(&bucket).await?,
    };
    let (first, last) = selection.times().days();
    let mut days = Vec::new();
    for queue in queues {
        let after = first.map(|day| format!("{queue}date={day}"));
        days.extend(folders(&bucket, &queue, after).await?.into_iter().filter(|folder| {
            let date =
                folder.strip_prefix(&*queue).and_then(|rest| rest.strip_prefix("date=")?.strip_suffix('/'));
            date.and_then(day).is_some_and(|date| last.is_none_or(|last| date <= last))
        }));
    }
    Ok(days)
}

async fn queue_folders(bucket: &ArchiveBucket) -> Result<Vec<String>, UnreadItem> {
    folders(bucket, &queues_folder(&bucket.prefix), None).await
}

/// Lists the folders whose keys begin with `beginning`, in order.
async fn folders(
    bucket: &ArchiveBucket,
    beginning: &str,
    after: Option<String>,
) -> Result<Vec<String>, UnreadItem> {
    let listed = bucket.folders(beginning, after, u32::MAX).await;
    listed.map(|(folders, _)| folders).map_err(|failure| unlisted(beginning, failure))
}

/// Returns a key after which the listing begins with `first`. S3 leaves out the key itself. No key of an
/// archive lies between this one and the first key.
fn before_key(first: &str) -> String {
    let mut key = first.to_owned();
    if let Some(last) = key.pop()
        && last.is_ascii_graphic()
        && last > '!'
    {
        key.push(char::from(last as u8 - 1));
        key.push('~');
    }
    key
}

fn unlisted(prefix: &str, failure: Failure) -> UnreadItem {
    UnreadItem { key: prefix.into(), line: None, why: WhyUnread::Call(failure) }
}
