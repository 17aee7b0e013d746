/** Texts made to cost: each repeats what makes an expression go on, or come back, up to a length. */
const repeated = (piece: string, length: number): string =>
  piece.repeat(Math.ceil(length / piece.length)).slice(0, length)

export const hostileTexts = (length: number): ReadonlyArray<readonly [what: string, text: string]> => [
  ...[
    "a",
    "A",
    "0",
    "aB3",
    "=",
    "-",
    " ",
    "\n",
    "a\n",
    "a1\nb2\n",
    ".",
    "/",
    "%",
    "%2",
    "%61",
    "%25",
    "\\u0061",
    "&#97;",
    "\\",
    '"',
    "eyJ",
    "eyJhbGciOiJIUzI1NiJ9.",
    "sk-",
    "sk-a",
    "ghp_",
    "ghp_a",
    "csk_",
    "AKIA",
    "xoxb-",
    "https://",
    "https://a:b",
    "https://a:b@",
    "a://:@",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "-----",
    "password",
    "password=",
    "password: ",
    'password="',
    "token=token",
    "key=a1",
    "secret is ",
    "api key is a1b2c3d4e5f6g7 ",
    "Bearer ",
    "Bearer a",
    "Basic ",
    "Basic YWRtaW46eA",
    "Authorization: ",
    "Cookie: a=",
    "Cookie: ",
    "a=b;",
    "--password ",
    "-u a:",
    "SG.a.",
    "hooks.slack.com/services/",
    "pat",
    "-us1",
    "sig=",
    "?sig=",
    "Q~",
    "AAAA:AA",
    "1:AA",
    "\u200b",
    "a\u200b",
    "\uff41",
    "QUFB",
    "cGFzc3dvcmQ9aHVudGVyMg",
    "VmFsdWU6IFZhbHVlOiA",
    "whsec_",
    "M.a.",
    "{",
    "[REDACTED]",
    "😀",
    "\ud800",
    "_-",
    "x_",
    "Private-Lines: 9\n",
    "a.b",
    "pass.",
    "https://a/b@c "
  ].map((piece) => [JSON.stringify(piece), repeated(piece, length)] as const),
  ["a known prefix", repeated("whsec_QUFBQUFBQUFB", length)],
  ["nested base64", nested(length)],
  [
    "words",
    repeated(
      "The quick brown fox jumps over the lazy dog, and the token of our session is the key to it. ",
      length
    )
  ],
  [
    "everything at once",
    repeated("https://a:b@c sk-a1 password=x1 Bearer eyJ0 -----BEGIN PRIVATE KEY----- %61 QUFBQUFB\n", length)
  ]
]

const nested = (length: number): string => {
  let text = "password: hunter2 "
  while (text.length < length * 0.7) text = Buffer.from(text.repeat(3)).toString("base64")
  return text.slice(0, length)
}
