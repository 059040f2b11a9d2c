#!/usr/bin/env bash
# Makes the keys, certificates and signed messages of tests/function/signature anew. They are checked in,
# because ring can neither make RSA keys nor sign with SHA-1. The keys guard nothing: no certificate
# here is known to anybody but these tests.
#
#   cd tests/data/signature && ./make.sh
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
valid=(-startdate 20260101000000Z -enddate 20460101000000Z)

cat >"$work/ca.cnf" <<END
[ca]
default_ca = here
[here]
database = $work/index
new_certs_dir = $work
rand_serial = yes
default_md = sha256
unique_subject = no
policy = any
[any]
commonName = supplied
END
touch "$work/index"

key() { # file, bits
  openssl genpkey -quiet -algorithm RSA -pkeyopt "rsa_keygen_bits:$2" -out "$1" 2>/dev/null
}

issuer() { # name
  key "$work/$1.key" 2048
  openssl req -new -key "$work/$1.key" -subj "/CN=Test issuer $1" -out "$work/$1.csr"
  printf 'basicConstraints=critical,CA:TRUE\n' >"$work/$1.ext"
  openssl ca -batch -notext -config "$work/ca.cnf" -selfsign -keyfile "$work/$1.key" \
    -in "$work/$1.csr" -extfile "$work/$1.ext" "${valid[@]}" -out "$work/$1.pem" 2>/dev/null
}

certificate() { # file, key, extensions ...
  local file=$1 key=$2
  shift 2
  printf '%s\n' "$@" >"$work/ext"
  openssl req -new -key "$key" -subj "/CN=sns.amazonaws.com" -out "$work/csr"
  openssl ca -batch -notext -config "$work/ca.cnf" -keyfile "$work/one.key" -cert "$work/one.pem" \
    -in "$work/csr" -extfile "$work/ext" "${valid[@]}" -out "$file" 2>/dev/null
}

text() { # name, value ...: the text that SNS signs
  printf '%s\n' "$@"
}

message() { # file, version, digest, key, [subject]
  local message='{"event":"order-placed","note":"Grüße & <thanks>"}' id=d3344452-ca4e-5849-9b44-70f435b0010d
  local topic=arn:aws:sns:eu-central-1:123456789012:payments time=2026-11-01T11:59:58.351Z
  local subject=() subject_line=
  if [ $# -gt 4 ]; then
    subject=(Subject "$5") subject_line=$'\n  "Subject" : "'"$5"'",'
  fi
  local signature
  signature=$(text Message "$message" MessageId "$id" ${subject[@]+"${subject[@]}"} Timestamp "$time" \
    TopicArn "$topic" Type Notification | openssl dgst "-$3" -sign "$4" | base64 -w0)
  cat >"$1" <<END
{
  "Type" : "Notification",
  "MessageId" : "$id",
  "TopicArn" : "$topic",$subject_line
  "Message" : "${message//\"/\\\"}",
  "Timestamp" : "$time",
  "SignatureVersion" : "$2",
  "Signature" : "$signature",
  "SigningCertURL" : "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef0123456789abcdef.pem",
  "UnsubscribeURL" : "https://sns.eu-central-1.amazonaws.com/?Action=Unsubscribe&SubscriptionArn=$topic:43fe80b0-b10c-4081-9e18-5bdb8f9824e6"
}
END
}

issuer one
issuer two
key key.pem 2048
key "$work/other.key" 2048
key "$work/weak.key" 1024
openssl ecparam -name prime256v1 -genkey -noout -out "$work/elliptic.key"

leaf='basicConstraints=critical,CA:FALSE'
server='extendedKeyUsage=serverAuth'
global='subjectAltName=DNS:sns.amazonaws.com'
certificate sns.pem key.pem "$leaf" "$server" "$global"
certificate opt-in.pem key.pem "$leaf" "$server" \
  'subjectAltName=DNS:sns-signing.eu-central-1.amazonaws.com,DNS:sns.eu-central-1.amazonaws.com'
certificate other-region.pem key.pem "$leaf" "$server" \
  'subjectAltName=DNS:sns-signing.eu-west-1.amazonaws.com,DNS:sns.eu-west-1.amazonaws.com'
certificate wildcard.pem key.pem "$leaf" "$server" 'subjectAltName=DNS:*.amazonaws.com'
certificate stranger.pem key.pem "$leaf" "$server" 'subjectAltName=DNS:sns.amazonaws.com.example.org'
certificate common-name.pem key.pem "$leaf" "$server"
certificate authority.pem key.pem 'basicConstraints=critical,CA:TRUE' "$server" "$global"
certificate client.pem key.pem "$leaf" 'extendedKeyUsage=clientAuth' "$global"
certificate other-key.pem "$work/other.key" "$leaf" "$server" "$global"
certificate weak.pem "$work/weak.key" "$leaf" "$server" "$global"
certificate elliptic.pem "$work/elliptic.key" "$leaf" "$server" "$global"
cat sns.pem "$work/one.pem" >chain.pem
cat sns.pem "$work/two.pem" >other-chain.pem

message v1.json 1 sha1 key.pem
message v1-subject.json 1 sha1 key.pem 'Order placed'
message v2.json 2 sha256 key.pem
message v2-subject.json 2 sha256 key.pem 'Order placed'
message v2-weak.json 2 sha256 "$work/weak.key"
