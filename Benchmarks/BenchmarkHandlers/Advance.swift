public import Handlers

/// The handler of the step benchmarks: it counts and binds the next of its kind.
///
/// Its arguments are of the size and kind that a request for a device's bundle binds, about 300 bytes as JSON.
public struct Advance: Handler {
    public static let id = "bench.bundle-fetched"
    public static let schema = Schema(
        module: "bench",
        migrations: [
            "CREATE TABLE effect(id INTEGER PRIMARY KEY, total INTEGER NOT NULL); INSERT INTO effect VALUES (1, 0)"
        ])

    var node: String
    var device: UInt32
    var account: String
    var attempt: Int?
    var trusted: Bool
    var session: String

    public static func numbered(_ n: Int) -> Advance {
        let device = 1_000_000 + UInt32(n % 1_000_000)
        return Advance(
            node: "eu.siacs.conversations.axolotl.bundles:\(device)", device: device,
            account: "juliet@capulet.example/balcony-5f0c7a41", attempt: 1, trusted: false,
            session:
                "romeo@montague.example/orchard 1f8e66c0-a1f4-4b28-9a6e-8c1f0c6d2f4b 2026-03-14T15:09:26Z, "
                + "first message after the device list changed")
    }

    public func run(_ call: borrowing Call<Int>) throws {
        try call.step.write("UPDATE effect SET total = total + ? WHERE id = 1", 1)
        try call.step.bind(Advance.numbered(call.context).durable)
    }
}
