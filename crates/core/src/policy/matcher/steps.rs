//! A count of the steps of matching, for the tests that bound them.

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts steps. A step is a part of a pattern beside a value of a letter.
#[cfg(test)]
pub(super) fn count(steps: usize) {
    STEPS.set(STEPS.get() + steps);
}

#[cfg(not(test))]
pub(super) const fn count(_: usize) {}

/// Returns the steps since the last call.
#[cfg(test)]
pub(super) fn taken() -> usize {
    STEPS.replace(0)
}
