import Glibc
import Handlers

/// `slot DATABASE`: takes a slot and does with it what standard input says, one command a line, until it ends.
///
/// Every command is answered by one line. When the input ends, the process goes without leaving its slot.
func slot(_ arguments: [String]) throws {
    let recovered = Recovered()
    let slot = try ProcessSlot(path: arguments[0]) { (slot, runningCall) throws(HandlerError) in
        recovered.add(slot, runningCall)
    }
    say("slot \(slot.number)\(recovered.words)")
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        switch words.first {
        case "mark": slot.record(RunningCall(handler: Int64(words[1])!, digest: UInt64(words[2])!))
        case "clear": slot.clearRunningCall()
        case "leave": slot.leave()
        case "exec":
            var arguments = [strdup("sleep"), strdup("60"), nil]
            execv("/bin/sleep", &arguments)
            fail("not another program: error \(errno)")
        case "ring": for _ in 0..<Int(words[1])! { slot.notifyOthers() }
        case "commit": try commit(Int(words[1])!, arguments[0], slot)
        case "recover":
            let recovered = Recovered()
            slot.recoverDead { recovered.add($0, $1) }
            say("recovered\(recovered.words)")
            continue
        default: fail("unknown command: \(line)")
        }
        say("done")
    }
}

/// Commits rows one by one and notifies the others of each.
private func commit(_ count: Int, _ path: String, _ slot: ProcessSlot) throws {
    let counted = Schema(module: "counted", migrations: ["CREATE TABLE counted(x INTEGER)"])
    let store = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: [counted])
    for _ in 0..<count {
        try store.step { _ = try $0.execute("INSERT INTO counted VALUES(1)") }
        slot.notifyOthers()
    }
}

/// `mark-for-ever DATABASE`: writes one mark after another, each with the digest that belongs to its handler.
func markForEver(_ arguments: [String]) throws {
    let slot = try ProcessSlot(path: arguments[0]) { (_, _) throws(HandlerError) in }
    say("slot \(slot.number)")
    var handler: Int64 = 1
    while true {
        slot.record(RunningCall(handler: handler, digest: UInt64(handler) &* 0x9e37_79b9_7f4a_7c15))
        if handler % 7 == 0 { slot.clearRunningCall() }
        handler += 1
    }
}

/// The slots that were recovered, as ` slot:handler:digest` each; slots without a mark as ` slot`.
final class Recovered {
    private(set) var words = ""

    func add(_ slot: Int, _ runningCall: RunningCall?) {
        guard let runningCall else { return words += " \(slot)" }
        words += " \(slot):\(runningCall.handler):\(runningCall.digest)"
    }
}
