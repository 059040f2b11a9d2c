#!/usr/bin/env bash
# Makes the authority and the certificate of the web server in tests/function/endpoints anew. Nobody but
# that test trusts them.
#
#   cd tests/data/https && ./make.sh
set -euo pipefail
cd "$(dirname "$0")"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$work/authority.key"
openssl req -x509 -new -key "$work/authority.key" -subj '/CN=Test authority' -days 36500 \
  -addext 'basicConstraints=critical,CA:TRUE' -out authority.pem

server() { # name, subjectAltName
  openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key"
  openssl req -new -key "$1.key" -subj '/CN=Test server' -out "$work/csr"
  printf 'basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=%s\n' "$2" >"$work/ext"
  openssl x509 -req -in "$work/csr" -CA authority.pem -CAkey "$work/authority.key" -days 36500 \
    -extfile "$work/ext" -out "$1.pem" 2>/dev/null
}

server localhost 'DNS:localhost,IP:127.0.0.1'
server elsewhere 'DNS:elsewhere.example'
