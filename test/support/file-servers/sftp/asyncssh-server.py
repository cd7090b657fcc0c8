"""
An SFTP server of AsyncSSH for one account, whose files are below a folder. It says nothing about a
file but its size and its times: a server may leave out any attribute.

Arguments: port, folder, file of the host key, password, and one of these rules, if any:
- `any-case`: names with other letter case are the same, as on Windows and macOS.
- `closed`: the server shows a new file when it is closed, as servers in front of object stores do.
"""

import asyncio
import os
import sys
import warnings

warnings.filterwarnings('ignore')

import asyncssh  # noqa: E402

port, root, host_key, password, *rules = sys.argv[1:]


class Account(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True

    def password_auth_supported(self):
        return True

    def validate_password(self, username, given):
        return given == password


def bare(attrs):
    return asyncssh.SFTPAttrs(size=attrs.size, atime=attrs.atime, mtime=attrs.mtime)


# The paths that open files get when they are closed.
hidden = {}


class Files(asyncssh.SFTPServer):
    def __init__(self, channel):
        super().__init__(channel, chroot=root)

    def map_path(self, path):
        return super().map_path(path.lower() if 'any-case' in rules else path)

    def open(self, path, pflags, attrs):
        new = self.map_path(path)
        if 'closed' not in rules or not pflags & asyncssh.FXF_CREAT:
            return super().open(path, pflags, attrs)
        file = open(new + b'.new', 'w+b', buffering=0)
        hidden[file] = new
        return file

    def close(self, file_obj):
        super().close(file_obj)
        if file_obj in hidden:
            os.rename(file_obj.name, hidden.pop(file_obj))

    def stat(self, path):
        return bare(asyncssh.SFTPAttrs.from_local(super().stat(path)))

    def lstat(self, path):
        return bare(asyncssh.SFTPAttrs.from_local(super().lstat(path)))

    def fstat(self, file_obj):
        return bare(asyncssh.SFTPAttrs.from_local(super().fstat(file_obj)))


async def serve():
    await asyncssh.create_server(
        Account,
        '127.0.0.1',
        int(port),
        server_host_keys=[host_key],
        sftp_factory=Files,
    )
    await asyncio.Future()


asyncio.run(serve())
