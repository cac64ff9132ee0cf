public import Handlers

/// A handler with three arguments, as most have them: the one that waits in great numbers.
public struct Waiting: Handler {
    public static let id = "bench.device-list-fetched"

    var peer: String
    var device: UInt32
    var attempt: Int

    public static func numbered(_ n: Int) -> Waiting {
        Waiting(
            peer: "juliet-\(n % 1000)@capulet.example", device: 1_000_000 + UInt32(n % 1_000_000), attempt: 1)
    }

    public func run(_ call: borrowing Call<Int>) throws {
        try call.step.execute("UPDATE effect SET total = total + ? WHERE id = 1", 1)
        try call.step.bind(Waiting.numbered(call.context).durable)
    }
}
