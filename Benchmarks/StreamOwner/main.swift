// A process that owns an account's stream when it is told to: what is killed, frozen and asked where take-overs are measured.
//
//     stream-owner STORE JID PASSWORD PORT CA main|worker SILENCE
//
// Lines on standard input are `connect`, `settle` and `suspend`; it says when it was asked and what it reached, each with the
// monotonic clock in nanoseconds, and `settled`, `suspended` or `failed`. The end of the input ends it, as a kill would.

import Glibc
import Handlers
import XMPPAccount
import XMPPCore
import XMPPModules

@Sendable func say(_ word: String) {
    var time = timespec()
    clock_gettime(CLOCK_MONOTONIC, &time)
    let line = Array("\(word) \(Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec))\n".utf8)
    _ = write(STDOUT_FILENO, line, line.count)
}

let words = CommandLine.arguments
guard words.count == 8, let port = UInt16(words[4]), let role = AccountRole(rawValue: words[6]),
    let silence = Int64(words[7])
else { exit(2) }
let store = try HandlerStore(
    path: words[1], registry: HandlerRegistry([]), schemas: Account.schemas,
    role: role == .worker ? .worker : .main)
var configuration = AccountConfiguration(
    jid: try JID(words[2]), password: words[3],
    server: .init(host: "127.0.0.1", port: port, security: .directTLS))
configuration.trust = .file(path: words[5])
configuration.role = role
configuration.ownerSilence = .milliseconds(silence)
configuration.onMilestone = { say($0.rawValue) }
let account = try Account(configuration, store: store)
say("ready")
while let line = readLine() {
    do {
        switch line {
        case "connect":
            say("asked")
            try await account.connect()
        case "settle":
            // What the start of a stream brings is committed, and no step is under way.
            try await account.caughtUp()
            for _ in 0..<3 { try await account.perform { _ in } }
            say("settled")
        default:
            try await account.suspend()
            say("suspended")
        }
    } catch {
        say("failed \(error)")
    }
}
_exit(0)
