"""The embedded hub: a small Hub-compatible server for loopback. It imports nothing of ours from outside this folder.

A client and a server that share code share its bugs, so everything here is written against the wire alone.
"""
