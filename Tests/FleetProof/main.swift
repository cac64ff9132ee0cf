// Machines that share accounts on PostgreSQL die, freeze and are cut off, and primaries are killed, while a peer sends messages. At the
// end nothing is lost, nothing is repeated, and no machine has committed anything after the others took it for dead.
//
//     fleet-proof [--seconds 90] [--machines 4] [--accounts 100] [--rate 200] [--seed 1]
//
// Machines are process groups behind proxies here, not network namespaces.

import Glibc
import Platform
import TestServers
import XMPPTestKit

let words = Array(CommandLine.arguments.dropFirst())
if words.first == "machine" {
    try await Machine.run(Array(words.dropFirst()))
    exit(0)
}
var size = Fleet.Size()
var rest = words[...]
while let word = rest.popFirst() {
    guard let value = rest.popFirst(), let number = Int(value), number > 0 else {
        complain("fleet-proof: \(word) needs a number from 1 on")
        exit(2)
    }
    switch word {
    case "--seconds": size.seconds = number
    case "--machines": size.machines = number
    case "--accounts": size.accounts = number
    case "--rate": size.rate = number
    case "--seed": size.seed = UInt64(number)
    default:
        complain("fleet-proof: unknown option \(word)")
        exit(2)
    }
}
let fleet = try Fleet(size)
let proof = Proof(fleet)
do {
    let isProven = try proof.run()
    fleet.close()
    exit(isProven ? 0 : 1)
} catch {
    complain("fleet-proof: \(error)")
    fleet.close()
    exit(1)
}
