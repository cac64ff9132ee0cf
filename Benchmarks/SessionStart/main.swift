// A client of ours, as short as can be: opens its store, has a session, says so, and is gone.
//
//     session-start STORE JID PASSWORD PORT starttls|direct CA
//
// It verifies the certificate. It leaves as a killed process does, so that the next one on the same store resumes.

import Glibc
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

let words = CommandLine.arguments
guard words.count == 7, let port = UInt16(words[4]) else { exit(2) }
let store = try HandlerStore(path: words[1], registry: HandlerRegistry([]), schemas: Account.schemas)
var configuration = AccountConfiguration(
    jid: try JID(words[2]), password: words[3],
    server: .init(host: "127.0.0.1", port: port, security: words[5] == "direct" ? .directTLS : .startTLS))
configuration.trust = .file(path: words[6])
try await Account(configuration, store: store).connect()
_ = write(STDOUT_FILENO, "ready\n", 6)
_exit(0)
