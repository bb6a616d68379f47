"""A cache of what other services answered: files, each signed by this portal, good for a minute."""

import hashlib
import hmac
import pickle
import time

from portal import config

GOOD_FOR_S = 60
SIGNATURE_BYTES = 32


def cache_file(name):
    """The file that holds an answer; the digest only spreads names over files."""
    return config.CACHE_DIR / (hashlib.md5(name.encode()).hexdigest() + ".bin")


def cached_json(name, fetch):
    """The answer of that name, fetched when there is none or it is too old."""
    path = cache_file(name)
    if path.exists() and time.time() - path.stat().st_mtime < GOOD_FOR_S:
        kept = read_signed(path.read_bytes())
        if kept is not None:
            return kept
    answer = fetch()
    body = pickle.dumps(answer)
    path.write_bytes(_signature(body) + body)
    return answer


def read_signed(content):
    """What a cache file holds; None when this portal did not write it."""
    signature, body = content[:SIGNATURE_BYTES], content[SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(body)):
        return None
    return pickle.loads(body)


def _signature(body):
    return hmac.new(config.CACHE_KEY, body, hashlib.sha256).digest()
