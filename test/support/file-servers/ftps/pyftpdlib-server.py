"""
An FTPS server (explicit TLS) of pyftpdlib for one account, whose files are below a folder. It closes
a data connection on which bytes arrive before the command.

Arguments: port, folder, file of the certificate and its key, user name, password, and these rules:
- `no-mlsd`: the server has neither MLST nor MLSD, as Microsoft's has not.
- `dash-refused`: it takes the option of `LIST -a` for a name, and refuses it.
- `dash-empty`: it does so, and lists nothing.
"""

import sys

from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import BufferedIteratorProducer, TLS_FTPHandler
from pyftpdlib.servers import FTPServer

port, root, certificate, user, password, *rules = sys.argv[1:]


class Session(TLS_FTPHandler):
    certfile = certificate
    tls_control_required = True
    tls_data_required = True
    max_login_attempts = 10
    proto_cmds = {
        name: properties
        for name, properties in TLS_FTPHandler.proto_cmds.items()
        if 'no-mlsd' not in rules or name not in ('MLSD', 'MLST')
    }

    def pre_process_command(self, line, cmd, arg):
        if cmd == 'LIST' and arg.startswith('-') and 'dash-refused' in rules:
            self.respond('550 %s: No such file or directory.' % arg)
        elif cmd == 'LIST' and arg.startswith('-') and 'dash-empty' in rules:
            self.push_dtp_data(BufferedIteratorProducer(iter([])), isproducer=True, cmd=cmd)
        else:
            super().pre_process_command(line, cmd, arg)


Session.authorizer = DummyAuthorizer()
Session.authorizer.add_user(user, password, root, perm='elradfmwMT')
FTPServer(('127.0.0.1', int(port)), Session).serve_forever()
