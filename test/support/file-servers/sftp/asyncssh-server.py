"""
An SFTP server of AsyncSSH for one account, whose files are below a folder. It says nothing about a
file but its size and its times: a server may leave out any attribute.

Arguments: port, folder, file of the host key, password.
"""

import asyncio
import sys
import warnings

warnings.filterwarnings('ignore')

import asyncssh  # noqa: E402

port, root, host_key, password = sys.argv[1:]


class Account(asyncssh.SSHServer):
    def begin_auth(self, username):
        return True

    def password_auth_supported(self):
        return True

    def validate_password(self, username, given):
        return given == password


def bare(attrs):
    return asyncssh.SFTPAttrs(size=attrs.size, atime=attrs.atime, mtime=attrs.mtime)


class Files(asyncssh.SFTPServer):
    def __init__(self, channel):
        super().__init__(channel, chroot=root)

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
