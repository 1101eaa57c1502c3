# SPDX-License-Identifier: MIT OR Apache-2.0
"""The declarations of the module are those of the headers; the package finds its files."""

import re
import subprocess
import sys
import unittest

import bellwire
from bellwire import _native


def declarations(source):
    """The declarations of a header or of `_native`, without comments and white space."""
    source = re.sub(r"/\*.*?\*/", " ", source, flags=re.S)
    source = re.sub(r"^#(?:.*\\\n)*.*$", " ", source, flags=re.M)
    source = re.sub(r"^AM_DEFINE\(.*$", " ", source, flags=re.M)
    source = re.sub(r"\s+", " ", source)
    parts = re.findall(r"typedef struct \{[^}]*\} \w+;|[^;{}]+;", source)
    return {re.sub(r"\s*([(),;{}*])\s*", r"\1", part).strip() for part in parts}


class Declarations(unittest.TestCase):
    def compare(self, header, own):
        theirs = declarations((bellwire.include_directory() / header).read_text())
        missing = declarations(own) - theirs
        self.assertEqual(missing, set(), f"not in {header}")

    def test_rpc(self):
        self.compare("bellwire_rpc.h", _native.RPC)

    def test_am(self):
        self.compare("am.h", _native.AM)

    def test_a_difference_is_seen(self):
        with self.assertRaises(AssertionError):
            self.compare("am.h", _native.AM.replace("AM_Poll(eb_t bundle)", "AM_Poll(ep_t bundle)"))

    def test_codes_of_errors(self):
        from bellwire import rpc

        source = (bellwire.include_directory() / "bellwire_rpc.h").read_text()
        codes = {int(code) for code in re.findall(r"BW_RPC_(?!ERR_)[A-Z_]+ = (\d+)", source)} - {0}
        self.assertEqual(set(rpc._BY_CODE) - {32}, codes)


class Package(unittest.TestCase):
    def test_version(self):
        done = subprocess.run([sys.executable, "-m", "bellwire", "--version"], capture_output=True, text=True, check=True)
        self.assertIn(bellwire.__version__, done.stdout)

    def test_status_of_the_command(self):
        self.assertEqual(subprocess.run([sys.executable, "-m", "bellwire", "no-such-command"], capture_output=True, check=False).returncode, 2)

    def test_environment_of_an_mpi(self):
        found = bellwire.env("mpich", base={"A": "1"})
        self.assertEqual(found["A"], "1")
        self.assertEqual(found["FI_PROVIDER"], "bellwire")
        self.assertTrue(any(bellwire.prefix().joinpath("lib/bellwire").glob("*-fi.so")))
        self.assertIn("FI_PROVIDER_PATH", bellwire.env())
        with self.assertRaises(ValueError) as wrong:
            bellwire.env("lam")
        self.assertIn("lam", str(wrong.exception))

    def test_files(self):
        self.assertTrue((bellwire.include_directory() / "vipl.h").is_file())
        self.assertTrue((bellwire.library_directory() / "libvipl.so.1").exists())
        self.assertTrue(bellwire.command("bellwire-bench").is_file())
        with self.assertRaises(FileNotFoundError):
            bellwire.command("no-such")


if __name__ == "__main__":
    unittest.main()
