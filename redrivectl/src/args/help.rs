//! The exit codes, as every help text ends with them.

/// Shown at the end of every help text.
pub(super) const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  something failed or could not be read; what was done is printed all the same
  2  bad usage or bad input: nothing was done";

pub(super) const EXIT_CODES_OF_REPLAY: &str = "\
A replay that was interrupted, or killed, goes on when the same command is given again.

Exit codes:
  0  every letter that was asked for is sent; in a dry run, could be
  1  it stopped, was interrupted or failed, or letters were left out
  2  bad usage or bad input: nothing was done";

pub(super) const EXIT_CODES_OF_ORDERS: &str = "\
Exit codes:
  0  done: the orders are written, and the letters that wait are asked to wake
  1  something failed, was interrupted or could not be read; what was done is printed
  2  bad usage or bad input, or not confirmed: nothing was done";
