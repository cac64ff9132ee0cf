"""Reads Swift without a compiler: tokens, comments and declarations, for scripts/arrows.py and scripts/tidy.py.

It knows comments, strings with interpolation, regular expressions and `#if` (each branch is read). It does not know types: what a name
means is for the scripts to decide, with the scopes in which it stands.
"""
import re

TOKEN = re.compile(
    r'[ \t\r]*(?:(\n)|(//[^\n]*)|(/\*)|(#*"""|#*")|(`\w+`|[A-Za-z_]\w*|\$\w+|[#@][A-Za-z_]\w*)|(\d\w*(?:\.\d\w*)?)|(#/)|(->|\S))')
BLOCK = re.compile(r"/\*|\*/")
REGEX = re.compile(r"/(?![ /*])(?:[^/\\\n]|\\.)+/")
OPEN, CLOSE = {"(": ")", "[": "]", "{": "}"}, {")", "]", "}"}
MODIFIERS = {
    "public", "package", "internal", "private", "fileprivate", "open", "static", "final", "lazy", "weak", "unowned", "override",
    "mutating", "nonmutating", "consuming", "borrowing", "indirect", "required", "convenience", "dynamic", "nonisolated", "isolated",
    "prefix", "postfix", "infix", "distributed",
}
ACCESS = {"public": "public", "open": "public", "package": "package", "private": "private", "fileprivate": "private"}
TYPES = {"struct", "class", "enum", "protocol", "actor", "extension"}
DECLARING = TYPES | {"func", "init", "deinit", "subscript", "var", "let", "case", "typealias", "associatedtype", "macro", "import"}
BEFORE_TYPE = {"inout", "borrowing", "consuming", "some", "any", "sending", "isolated", "__owned", "__shared"}
KEYWORDS = DECLARING | {
    "if", "else", "for", "in", "while", "repeat", "do", "catch", "switch", "default", "return", "throw", "throws", "try", "await",
    "async", "guard", "defer", "break", "continue", "fallthrough", "where", "as", "is", "true", "false", "nil", "rethrows", "operator",
    "precedencegroup", "unsafe", "discard", "copy", "consume",
}


class Declaration:
    """A declaration that is not local to a function, or a function, type or accessor for its length."""

    __slots__ = ("kind", "name", "path", "labels", "access", "static", "attributes", "modifiers", "type", "inherits", "line", "end",
                 "token", "file", "local", "in_protocol", "raw", "defaults", "code")

    def __init__(self, kind, name, scope, file, line, token):
        self.kind, self.name, self.file, self.line, self.end, self.token = kind, name, file, line, line, token
        self.path, self.local = scope.path, scope.local
        self.in_protocol = scope.kind == "protocol"
        self.labels, self.defaults, self.type, self.inherits, self.raw, self.code = None, (), None, [], False, False
        self.access, self.static, self.attributes, self.modifiers = "internal", False, (), ()

    @property
    def full(self):
        return f"{self.path}.{self.name}" if self.path else self.name

    @property
    def title(self):
        return self.full + (f"({''.join(label + ':' for label in self.labels)})" if self.labels is not None else "")


class Scope:
    __slots__ = ("kind", "path", "parent", "declaration", "locals", "local", "access")

    def __init__(self, kind, path, parent, declaration=None, local=False, access=None):
        self.kind, self.path, self.parent, self.declaration, self.local = kind, path, parent, declaration, local
        self.locals, self.access = {}, access


class Source:
    """A file: `tokens` with their `lines` and `scopes`, `comments` as (line, column, text), `declarations`, and `match`, which leads
    from each opening bracket to the closing one. A string is one token, its text after a quotation mark; the code in it follows."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.tokens, self.lines, self.comments = [], [], []
        self.starts = [0]
        at = text.find("\n")
        while at >= 0:
            self.starts.append(at + 1)
            at = text.find("\n", at + 1)
        self.line = 1
        self.tokenize(0, False)
        self.match = self.brackets()
        self.scopes, self.declarations, self.names = [], [], set()
        Parser(self).run()

    # MARK: - Tokens

    def tokenize(self, at, inside):
        """Reads from `at` to the end, or, inside a string, to the parenthesis that closes its code. Returns where that is."""
        text, length, match, tokens, lines = self.text, len(self.text), TOKEN.match, self.tokens, self.lines
        depth = 0
        while at < length:
            found = match(text, at)
            if not found:
                return length
            kind, at = found.lastindex, found.end()
            if kind == 1:
                self.line += 1
            elif kind == 2:
                self.comment(found.start(2), found[2])
            elif kind == 3:
                at = self.block(found.start(3))
            elif kind == 4:
                at = self.string(found[4], at)
            elif kind == 7:
                end = text.find("/#", at)
                self.line += text.count("\n", at, end)
                self.add('"')
                at = end + 2
            elif kind == 5 and found[5] in ("#if", "#elseif", "#else", "#endif"):
                self.add(found[5])
                at = text.find("\n", at)
                at = length if at < 0 else at
            else:
                token = found[kind]
                if token == "/" and (not tokens or tokens[-1] in ("(", ",", "=", ":", "[", "{", "return", "in")):
                    literal = REGEX.match(text, at - 1)
                    if literal:
                        self.add('"')
                        at = literal.end()
                        continue
                if inside:
                    if token == "(":
                        depth += 1
                    elif token == ")":
                        depth -= 1
                        if depth == 0:
                            self.add(")")
                            return at
                tokens.append(token)
                lines.append(self.line)
        return at

    def add(self, token):
        self.tokens.append(token)
        self.lines.append(self.line)

    def comment(self, start, text):
        self.comments.append((self.line, start - self.starts[self.line - 1], text))

    def block(self, start):
        depth = 0
        for found in BLOCK.finditer(self.text, start):
            depth += 1 if found[0] == "/*" else -1
            if depth == 0:
                self.comment(start, self.text[start:found.end()])
                self.line += self.text.count("\n", start, found.end())
                return found.end()
        return len(self.text)

    def string(self, opening, at):
        hashes = opening.rstrip('"')
        quotes = opening[len(hashes):]
        end = re.compile(f'{quotes}{hashes}|\\\\{hashes}(.)' + ("" if len(quotes) == 3 else "|\n"), re.S)
        here = len(self.tokens)
        self.add('"')
        start = at
        while True:
            found = end.search(self.text, at)
            if not found:
                return len(self.text)
            self.line += self.text.count("\n", at, found.end())
            at = found.end()
            if found[1] == "(":
                at = self.tokenize(at - 1, True)
            elif not found[1]:
                if found[0] == "\n":
                    self.line -= 1
                    at -= 1
                self.tokens[here] = '"' + self.text[start:found.start()]
                return at

    def brackets(self):
        match, stack, saved = {}, [], []
        for index, token in enumerate(self.tokens):
            if token in OPEN:
                stack.append(index)
            elif token in CLOSE:
                if stack:
                    match[stack.pop()] = index
            elif token == "#if":
                saved.append(list(stack))
            elif token in ("#else", "#elseif") and saved:
                stack = list(saved[-1])
            elif token == "#endif" and saved:
                saved.pop()
        return match


class Parser:
    def __init__(self, source):
        self.source, self.tokens, self.lines, self.match = source, source.tokens, source.lines, source.match
        self.count = len(self.tokens)
        self.stack = [Scope("file", "", None)]
        self.pending, self.saved = None, []

    def at(self, index):
        return self.tokens[index] if index < self.count else ""

    def run(self):
        tokens, count = self.tokens, self.count
        modifiers, attributes, index = [], [], 0
        previous = ""
        while index < count:
            token = tokens[index]
            top = self.stack[-1]
            step = index + 1
            if token == "{":
                scope = self.pending or Scope("block", top.path, top, None, top.local or top.kind in ("block", "function"))
                if self.pending is None:
                    self.closure_parameters(index, scope)
                self.pending = None
                self.stack.append(scope)
            elif token == "}":
                while len(self.stack) > 1 and self.stack[-1].kind == "bracket":
                    self.stack.pop()
                if len(self.stack) > 1:
                    closed = self.stack.pop()
                    if closed.declaration:
                        closed.declaration.end = self.lines[index]
            elif token in ("(", "["):
                self.stack.append(Scope("bracket", top.path, top, None, top.local))
            elif token in (")", "]"):
                if top.kind == "bracket":
                    self.stack.pop()
            elif token == "#if":
                self.saved.append(list(self.stack))
            elif token in ("#else", "#elseif"):
                if self.saved:
                    self.stack = list(self.saved[-1])
            elif token == "#endif":
                if self.saved:
                    self.saved.pop()
            elif token[0] == "@":
                attributes.append(token[1:])
                if self.at(index + 1) == "(" and token not in ("@escaping", "@Sendable"):
                    step = self.match.get(index + 1, index) + 1
                self.fill(step, top)
                index = step
                continue
            elif token in MODIFIERS and previous != ".":
                if self.at(index + 1) == "(" and self.at(index + 3) == ")":
                    step = index + 4
                modifiers.append(token)
                self.fill(step, top)
                index = step
                continue
            elif token == "class" and self.at(index + 1) in ("func", "var", "subscript", "let"):
                modifiers.append("static")
                self.fill(step, top)
                index = step
                continue
            elif token in DECLARING and previous != "." and top.kind != "bracket":
                step = self.declaration(index, token, top, modifiers, attributes) or step
            elif token in ("let", "var") and previous != ".":
                self.pattern(index, top)
            elif token == "for" and previous != ".":
                end = index
                while end < count and tokens[end] != "in" and end - index < 30:
                    if tokens[end][0].isalpha() and tokens[end] not in KEYWORDS:
                        top.locals[tokens[end]] = None
                    end += 1
            self.fill(step, top)
            modifiers, attributes = [], []
            previous = tokens[step - 1] if step <= count else ""
            index = step

    def fill(self, end, scope):
        scopes = self.source.scopes
        scopes.extend([scope] * (end - len(scopes)))

    # MARK: - Declarations

    def new(self, kind, name, top, modifiers, attributes, index):
        declaration = Declaration(kind, name.strip("`"), top, self.source, self.lines[index], index)
        declaration.access = next((ACCESS[modifier] for modifier in modifiers if modifier in ACCESS), top.access or "internal")
        declaration.static = "static" in modifiers
        declaration.modifiers, declaration.attributes = tuple(modifiers), tuple(attributes)
        self.source.declarations.append(declaration)
        self.source.names.add(index)
        return declaration

    def declaration(self, index, keyword, top, modifiers, attributes):
        """Reads a declaration up to its body, and returns the next token's index; None when it is none."""
        next = self.at(index + 1)
        if keyword == "import":
            line, end = self.lines[index], index
            while end < self.count and self.lines[end] == line:
                self.source.names.add(end)
                end += 1
            return end
        if keyword in TYPES:
            if keyword == "class" and previous_is_colon(self.tokens, index) or not is_name(next):
                return None
            if keyword == "actor" and self.at(index + 2) not in (":", "<", "{"):
                return None
            return self.type(index, keyword, top, modifiers, attributes)
        if keyword == "func":
            return self.function(index, top, modifiers, attributes)
        if keyword in ("init", "subscript", "deinit"):
            if not (top.kind in TYPES and next in ("(", "?", "!", "<", "{")):
                return None
            return self.function(index - 1, top, modifiers, attributes)
        if keyword == "case":
            if top.kind == "enum":
                return self.cases(index, top, attributes)
            self.pattern_until(index, top)
            return None
        if keyword in ("typealias", "associatedtype", "macro"):
            if not is_name(next):
                return None
            declaration = self.new(keyword, next, top, modifiers, attributes, index + 1)
            if keyword == "typealias" and "=" in self.tokens[index:index + 30]:
                declaration.type = self.type_name(self.tokens.index("=", index) + 1)
            return index + 2
        return self.variable(index, keyword, top, modifiers, attributes)

    def type(self, index, keyword, top, modifiers, attributes):
        name, end = self.tokens[index + 1], index + 2
        while self.at(end) == ".":
            name += "." + self.at(end + 1)
            end += 2
        generics = {}
        if self.at(end) == "<":
            end = self.generics(end, generics)
        inherits, item, inheriting = [], "", False
        while end < self.count and self.tokens[end] != "{":
            token = self.tokens[end]
            if token == "where":
                inheriting = False
            elif token == ":" and not item and not inherits:
                inheriting = True
            elif inheriting and (token == "," or token == "&"):
                inherits.append(item)
                item = ""
            elif inheriting and token[0].isalpha() or item and token == ".":
                item = item + token if item.endswith(".") or token == "." else item or token
            end += 1
            if end - index > 120:
                return None
        if item:
            inherits.append(item)
        if keyword == "extension":
            declaration = Declaration("extension", name, self.stack[0], self.source, self.lines[index], index + 1)
            declaration.attributes = tuple(attributes)
            declaration.access = ""
            declaration.modifiers = tuple(modifiers)
            self.source.declarations.append(declaration)
            path, access = name, next((ACCESS[one] for one in modifiers if one in ACCESS), None)
        else:
            declaration = self.new(keyword, name, top, modifiers, attributes, index + 1)
            path = declaration.full
            access = declaration.access if keyword == "protocol" or declaration.access == "private" else None
        declaration.inherits = inherits
        self.pending = Scope(keyword, path, top, declaration, top.local, access)
        self.pending.locals.update(generics)
        return end

    def generics(self, index, names):
        """Skips `<…>`, and adds the names of the parameters."""
        depth = 0
        while index < self.count:
            token = self.tokens[index]
            if token == "<":
                depth += 1
            elif token == ">":
                depth -= 1
                if depth == 0:
                    return index + 1
            elif depth == 1 and is_name(token) and self.tokens[index - 1] in ("<", ",", "let", "each"):
                names[token] = None
            index += 1
        return index

    def function(self, index, top, modifiers, attributes):
        keyword = self.tokens[index + 1] if self.tokens[index] != "func" else "func"
        name_at, end = index + 1, index + 2
        name = self.at(name_at)
        if keyword == "func" and not is_name(name):
            while end < self.count and self.tokens[end] not in ("(", "<") or self.at(end) == "<" and self.at(end + 1) in ("=", "<", "("):
                name += self.tokens[end]
                end += 1
        if keyword == "init" and self.at(end) in ("?", "!"):
            end += 1
        declaration = self.new("func" if keyword == "func" else keyword, name, top, modifiers, attributes, name_at)
        declaration.line = self.lines[index] if keyword == "func" else self.lines[index + 1]
        body = Scope("function", top.path, top, declaration, True)
        if self.at(end) == "<":
            end = self.generics(end, body.locals)
        if self.at(end) == "(":
            close = self.match.get(end, end)
            declaration.labels, declaration.defaults = self.parameters(end, close, body)
            self.fill(index, top)
            scopes = self.source.scopes
            scopes.extend([body] * (close + 1 - len(scopes)))
            end = close + 1
        while end < self.count and self.tokens[end] != "{":
            token = self.tokens[end]
            if token == "->":
                declaration.type = self.type_name(end + 1)
            if token in ("(", "["):
                end = self.match.get(end, end)
            elif token in CLOSE or (self.lines[end] != self.lines[end - 1] and (
                    token in MODIFIERS or token in DECLARING or token[0] == "@" or token.startswith("#")
                    or top.kind == "protocol" and token not in ("->", "where", "throws", "async")
                    and self.tokens[end - 1] not in (",", "->", "where", ":", "&", "="))):
                return end
            end += 1
        if top.kind != "protocol" or keyword == "subscript":
            self.pending = body
            self.fill(index, top)
            self.source.scopes.extend([body] * (end - len(self.source.scopes)))
        return end

    def parameters(self, start, close, body):
        labels, defaults, index = [], [], start + 1
        while index < close:
            words, at = [], index
            while at < close and self.tokens[at] != ":":
                # A label may be a keyword: `in step: Step`.
                if self.tokens[at][0].isalpha() or self.tokens[at][0] in "_`":
                    words.append(self.tokens[at].strip("`"))
                at += 1
            self.source.names.update(range(index, at))
            end, default = at, False
            while end < close and self.tokens[end] != ",":
                default |= self.tokens[end] == "=" or self.tokens[end:end + 3] == [".", ".", "."]
                end = self.match.get(end, end) if self.tokens[end] in OPEN else self.angle(end, close)
                end += 1
            if words:
                labels.append(words[0])
                defaults.append(default)
                body.locals[words[-1]] = self.type_name(at + 1)
            index = end + 1
        return labels, defaults

    def angle(self, index, close):
        """Skips the arguments of a generic type, whose commas separate no parameters."""
        if self.tokens[index] != "<":
            return index
        depth, at = 0, index
        while at < close:
            depth += {"<": 1, ">": -1}.get(self.tokens[at], 0)
            if depth == 0:
                return at
            at += 1
        return index

    def type_name(self, index):
        """The name of the type that is written there, without its arguments; None for a tuple, collection or function."""
        while self.at(index) in BEFORE_TYPE or self.at(index).startswith("@"):
            index += 1
        name = self.at(index)
        if not is_name(name):
            return None
        index += 1
        while self.at(index) == "." and is_name(self.at(index + 1)):
            name += "." + self.at(index + 1)
            index += 2
        return None if self.at(index) == "-" else name

    def cases(self, index, top, attributes):
        index += 1
        while is_name(self.at(index)):
            declaration = self.new("case", self.tokens[index], top, [], attributes, index)
            declaration.static, declaration.type = True, top.path
            declaration.access = top.declaration.access
            declaration.raw = top.declaration
            index += 1
            if self.at(index) == "(":
                close = self.match.get(index, index)
                declaration.labels, declaration.defaults = self.case_labels(index, close)
                self.fill(index, top)
                index = close + 1
            if self.at(index) == "=":
                index += 2 if self.at(index + 1) != "-" else 3
            if self.at(index) != ",":
                break
            index += 1
        return index

    def case_labels(self, start, close):
        labels, defaults, index = [], [], start + 1
        while index < close:
            labelled = self.tokens[index + 1] == ":"
            labels.append(self.tokens[index] if labelled else "_")
            if labelled:
                self.source.names.add(index)
            end, default = index, False
            while end < close and self.tokens[end] != ",":
                default |= self.tokens[end] == "="
                end = self.match.get(end, end) if self.tokens[end] in OPEN else self.angle(end, close)
                end += 1
            defaults.append(default)
            index = end + 1
        return labels, defaults

    def variable(self, index, keyword, top, modifiers, attributes):
        if top.kind in TYPES or top.kind == "file":
            at = index + 1
            if self.at(at) == "(":
                for inner in range(at, self.match.get(at, at)):
                    if is_name(self.tokens[inner]):
                        self.new("var", self.tokens[inner], top, modifiers, attributes, inner)
                return self.match.get(at, at) + 1
            first = None
            while is_name(self.at(at)):
                declaration = self.new("var", self.tokens[at], top, modifiers, attributes, at)
                declaration.line = self.lines[index]
                first = first or declaration
                at += 1
                if self.at(at) == ":":
                    declaration.type = self.type_name(at + 1)
                elif self.at(at) == "=":
                    declaration.type = self.created(at + 1)
                if self.at(at) == "," and self.at(at + 2) in (",", ":", "="):
                    at += 1
                    continue
                break
            if first:
                self.accessor(at, first, top)
            return at
        self.pattern(index, top)
        return None

    def accessor(self, index, declaration, top):
        """Lets the braces of a computed variable belong to it."""
        end = index
        while end < self.count and self.tokens[end] not in ("{", "=", "}", ";"):
            if self.lines[end] != self.lines[end - 1] and (self.tokens[end] in DECLARING or self.tokens[end] in MODIFIERS
                                                           or self.tokens[end][0] in "@#"):
                return
            end = self.match.get(end, end) + 1 if self.tokens[end] in ("(", "[") else end + 1
        if self.at(end) == "{":
            scope = Scope("function", top.path, top, declaration, True)
            declaration.code = True
            self.fill(end, top)
            self.pending = scope

    def created(self, index):
        """The type of `Type(…)`; otherwise where the value is written."""
        start = index
        while self.at(index) in ("try", "await", "?", "!", "unsafe"):
            index += 1
        name = self.at(index)
        return (index, self.source) if is_name(name) or name == "." else None

    # MARK: - Local names

    def pattern(self, index, top):
        """Adds the names after a `let` or `var` in a function."""
        next = self.at(index + 1)
        if is_name(next) and self.at(index + 2) not in (".", "("):
            annotated = self.at(index + 2) == ":"
            value = None
            if annotated:
                value = self.type_name(index + 3)
            elif self.at(index + 2) == "=":
                value = self.created(index + 3)
            self.enclosing(top).locals[next.strip("`")] = value
            return
        self.pattern_until(index, top)

    def pattern_until(self, index, top):
        end = index + 1
        binds = self.tokens[index] in ("let", "var")
        while end < self.count and end - index < 60 and self.tokens[end] not in ("=", ":", "in", "where", "{", "}"):
            token = self.tokens[end]
            if token in ("let", "var"):
                binds = True
            elif binds and is_name(token) and self.tokens[end - 1] != ".":
                self.enclosing(top).locals[token] = None
            if self.tokens[end] in ("(",) and self.tokens[index] == "case":
                close = self.match.get(end, end)
                letting = binds
                for inner in range(end, close):
                    if self.tokens[inner] in ("let", "var"):
                        letting = True
                    elif letting and is_name(self.tokens[inner]) and self.tokens[inner - 1] != "." and self.at(inner + 1) != ":":
                        self.enclosing(top).locals[self.tokens[inner]] = None
                end = close
            end += 1

    def enclosing(self, scope):
        while scope.kind == "bracket" and scope.parent:
            scope = scope.parent
        return scope

    def closure_parameters(self, index, scope):
        line, names, at = self.lines[index], [], index + 1
        while at < self.count and self.lines[at] == line and at - index < 40:
            token = self.tokens[at]
            if token == "in":
                for name in names:
                    scope.locals[name] = None
                return
            if token in ("{", "}", "=", ";", "for", "."):
                if token != "." or names == []:
                    return
            elif is_name(token) and self.tokens[at - 1] in ("{", ",", "(", "]"):
                names.append(token)
            at += 1


def is_name(token):
    return bool(token) and (token[0].isalpha() or token[0] in "_`") and token not in KEYWORDS and token != "Self"


def previous_is_colon(tokens, index):
    return index > 0 and tokens[index - 1] in (":", ",", "&")


def read(name, path):
    with open(path, encoding="utf-8") as file:
        return Source(name, file.read())


def called_with(source, index):
    """How the name at a token is called: its labels, and how many closures follow; None when it is not called."""
    tokens, match = source.tokens, source.match
    at = index + 1
    if at < len(tokens) and tokens[at] == "<" and tokens[at - 1][0].isalpha():
        depth = 0
        for end in range(at, min(at + 30, len(tokens))):
            depth += {"<": 1, ">": -1}.get(tokens[end], 0)
            if depth == 0:
                if end + 1 < len(tokens) and tokens[end + 1] == "(":
                    at = end + 1
                break
    if at >= len(tokens):
        return None
    if tokens[at] == "{":
        return [], 1
    if tokens[at] != "(" or source.lines[at] != source.lines[index]:
        return None
    close, labels = match.get(at, at), []
    at += 1
    while at < close:
        labels.append(tokens[at].strip("`") if tokens[at + 1] == ":" and tokens[at] not in ('"',) else "_")
        while at < close and tokens[at] != ",":
            at = match.get(at, at) + 1
        at += 1
    closures = 1 if close + 1 < len(tokens) and tokens[close + 1] == "{" else 0
    return labels, closures


def fits(declaration, call):
    """Whether a call may mean a declaration, by its labels."""
    if call is None or declaration.labels is None:
        return True
    labels, closures = call
    at, left_out = 0, 0
    for label in labels:
        while at < len(declaration.labels) and declaration.labels[at] != label:
            left_out += not declaration.defaults[at]
            at += 1
        if at == len(declaration.labels):
            # A variadic parameter takes several arguments without a label.
            return label == "_" and any(declaration.defaults)
        at += 1
    left_out += sum(1 for default in declaration.defaults[at:] if not default)
    return left_out <= 0 or closures > 0
