import Glibc
import Handlers

/// `seat DATABASE`: takes a seat and does with it what standard input says, one command a line, until it ends.
///
/// Every command is answered by one line. When the input ends, the process goes without leaving its seat.
func seat(_ arguments: [String]) throws {
    let recovered = Recovered()
    let slot = try ProcessSlot(path: arguments[0]) { (seat, mark) throws(HandlerError) in
        recovered.add(seat, mark)
    }
    say("seat \(slot.number)\(recovered.words)")
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        switch words.first {
        case "mark": slot.mark(Mark(handler: Int64(words[1])!, digest: UInt64(words[2])!))
        case "clear": slot.clear()
        case "leave": slot.leave()
        case "ring": for _ in 0..<Int(words[1])! { slot.ring() }
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

/// Commits rows one by one and tells the others of each.
private func commit(_ count: Int, _ path: String, _ slot: ProcessSlot) throws {
    let counted = Schema(module: "counted", migrations: ["CREATE TABLE counted(x INTEGER)"])
    let store = try HandlerStore(path: path, registry: HandlerRegistry(), schemas: [counted])
    for _ in 0..<count {
        try store.step { _ = try $0.execute("INSERT INTO counted VALUES(1)") }
        slot.ring()
    }
}

/// `mark-for-ever DATABASE`: writes one mark after another, each with the digest that belongs to its handler.
func markForEver(_ arguments: [String]) throws {
    let slot = try ProcessSlot(path: arguments[0]) { (_, _) throws(HandlerError) in }
    say("seat \(slot.number)")
    var handler: Int64 = 1
    while true {
        slot.mark(Mark(handler: handler, digest: UInt64(handler) &* 0x9e37_79b9_7f4a_7c15))
        if handler % 7 == 0 { slot.clear() }
        handler += 1
    }
}

/// The seats that were recovered, as ` seat:handler:digest` each; seats without a mark as ` seat`.
final class Recovered {
    private(set) var words = ""

    func add(_ seat: Int, _ mark: Mark?) {
        guard let mark else { return words += " \(seat)" }
        words += " \(seat):\(mark.handler):\(mark.digest)"
    }
}
