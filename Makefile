# SPDX-License-Identifier: MIT OR Apache-2.0
# make deps     installs what building, measuring and testing need (Debian 12, as root; Rust by rustup); FOR="build": only that
# make perf     deps, builds everything and runs the main job: bellwire perf, beside its peers
# make test     deps, all tests that fit in minutes; make test-long: more
# make check    what needs no build: format, tidy, links, pages, clippy; a minute; make hooks: before each push
# make build    builds what make install installs; says what is missing, installs nothing
# make install PREFIX=/usr/local [DESTDIR=]
# make site     the site in TARGET_DIR/site/html: the guide by mdBook, and rustdoc; site-figure measures its figure again
# make install-splitc  the Split-C compiler and its library (Debian's clang 14)
export PATH := $(PATH):$(HOME)/.cargo/bin
PREFIX ?= /usr/local
DESTDIR ?=
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
PERF_FLAGS ?= --compare
# What deps are for: build, perf, test, splitc, site.
FOR ?= build perf test

.PHONY: all deps build perf test test-long check hooks doc site site-figure site-recording install install-splitc clean
all: build

deps:
	@for goal in $(FOR); do scripts/setup.sh install $$goal || exit 1; done

build:
	@scripts/setup.sh check build
	cargo build --release --locked -p vipl -p bellwire-am-c -p bellwire-job-c -p bellwire-fi -p bellwire-verbs-c -p bellwire-sisci-c -p bellwire-cli -p bellwire-agent -p bellwire-bench -p bellwire-nisim

perf:
	@scripts/setup.sh install perf
	@$(MAKE) --no-print-directory build
	$(TARGET_DIR)/release/bellwire perf $(PERF_FLAGS)

test:
	@scripts/setup.sh install test
	TARGET_DIR=$(TARGET_DIR) scripts/test.sh

test-long:
	@scripts/setup.sh install test
	@scripts/setup.sh install site
	TARGET_DIR=$(TARGET_DIR) scripts/test.sh long

check:
	TARGET_DIR=$(TARGET_DIR) scripts/test.sh check

hooks:
	@scripts/pre-push.sh install

doc:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked

site: doc
	@scripts/setup.sh check site
	site/build.py $(TARGET_DIR)/site --rustdoc $(TARGET_DIR)/doc

# Both are kept in the tree; a release has them anew.
site-figure: build
	@scripts/setup.sh install perf
	site/figure.py $(TARGET_DIR)/release/bellwire

site-recording: build
	BUILD=$(TARGET_DIR)/release packaging/tarball.sh $(TARGET_DIR)/tarball
	site/record.py $(TARGET_DIR)/tarball/bellwire-*.tar.gz site/first-minutes.cast

install: build
	BUILD=$(abspath $(TARGET_DIR))/release PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) ffi/vipl/install.sh

install-splitc:
	@scripts/setup.sh check splitc
	cargo build --release --locked -p bellwire-gas-c -p bellwire-cli
	$(MAKE) -C splitcc install LIB=$(abspath $(TARGET_DIR))/release OUT=$(abspath $(TARGET_DIR))/splitcc PREFIX=$(PREFIX) DESTDIR=$(DESTDIR)

clean:
	cargo clean
