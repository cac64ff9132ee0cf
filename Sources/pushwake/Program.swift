import PushwakeCommands

@main
struct Program {
    static func main() async { await Pushwake.main() }
}
