#!/bin/sh
# SPDX-License-Identifier: MIT
# Certificates for tests of TLS, made anew for each: tests/lib/make-certs.sh DIR
#
#   ca, other-ca     two authorities
#   server           by ca, for localhost and 127.0.0.1; elsewhere: for another name
#   expired          by ca, over since yesterday
#   self             by itself
#   client           by ca; locked.key is its key behind a passphrase
#   rsa.key          of no certificate, and of another kind
set -eu

cd "$1"

key() {
	openssl genpkey -quiet -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null ||
		openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$1.key" 2>/dev/null
}

# authority NAME
authority() {
	key "$1"
	openssl req -x509 -new -key "$1.key" -subj "/CN=$1" -days 2 -out "$1.crt" \
		-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign
}

# by_ca NAME SUBJECT-ALT-NAMES DAYS
by_ca() {
	key "$1"
	printf 'subjectAltName=%s\n' "$2" >"$1.ext"
	openssl req -new -key "$1.key" -subj "/CN=$1" |
		openssl x509 -req -CA ca.crt -CAkey ca.key -days "$3" -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

authority ca
authority other-ca
by_ca server DNS:localhost,IP:127.0.0.1 2
by_ca elsewhere DNS:elsewhere.example 2
by_ca expired DNS:localhost,IP:127.0.0.1 -1
by_ca client DNS:client 2
openssl pkey -in client.key -aes256 -passout pass:passphrase -out locked.key
openssl genpkey -algorithm RSA -pkeyopt rsa_keygen_bits:2048 -out rsa.key 2>/dev/null
key self
openssl req -x509 -new -key self.key -subj /CN=self -days 2 -addext subjectAltName=DNS:localhost,IP:127.0.0.1 -out self.crt
