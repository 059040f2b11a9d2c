//! stub
use aws_sdk_sqs as _;
