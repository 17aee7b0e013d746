import { DateTime } from "effect"
import type { Timestamp } from "./Time.ts"

/** A rendered email. `subject` is one line; `html` is a complete document that loads nothing. */
export interface RenderedEmail {
  readonly subject: string
  readonly text: string
  readonly html: string
}

/** The content of an email: what happened, the facts, and one link. */
export interface EmailParts {
  /** One line; it is also the heading of the HTML form. */
  readonly subject: string
  readonly lead: string
  readonly facts: ReadonlyArray<readonly [name: string, value: string]>
  /** The text of the link. */
  readonly action: string
  readonly link: string
  /** Why the recipient gets the email. */
  readonly reason: string
}

/** Longest text of a tenant to show in full, in characters. Texts can have 200, which is too long for a line of email. */
const MAX_SHOWN_CHARACTERS = 120

/** A text of an agent or a person as one safe line: invisible, control and bidirectional characters become U+FFFD. */
export const toSafeLine = (text: string): string => {
  const line = text
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Co}\p{Zl}\p{Zp}]/gu, "\ufffd")
    .replace(/\s+/gu, " ")
    .trim()
  const characters = [...line]
  return characters.length > MAX_SHOWN_CHARACTERS
    ? `${characters.slice(0, MAX_SHOWN_CHARACTERS - 1).join("")}…`
    : line
}

/** `2026-11-21 08:45 UTC` */
export const formatMinute = (at: Timestamp): string =>
  `${DateTime.formatIso(at).slice(0, 16).replace("T", " ")} UTC`

/** Renders an email as text and as HTML. */
export const renderEmail = (parts: EmailParts): RenderedEmail => ({
  subject: parts.subject,
  text: textOf(parts),
  html: htmlOf(parts)
})

const textOf = ({ facts, action, lead, link, reason }: EmailParts): string => {
  const width = Math.max(...facts.map(([name]) => name.length)) + 2
  const lines = facts.map(([name, value]) => `  ${name.padEnd(width)}${value}`)
  return `${[lead, "", ...lines, "", `${action}:`, link, "", "-- ", reason].join("\n")}\n`
}

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;"
}

const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => escapes[character] ?? "")

/** Styles are inline because many mail clients drop a style sheet in the head. */
const htmlOf = ({ facts, action, lead, link, reason, subject }: EmailParts) => `\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escape(subject)}</title>
</head>
<body style="margin:0;padding:24px;font:16px/1.5 system-ui,-apple-system,'Segoe UI',sans-serif">
<div style="max-width:600px;margin:0 auto">
<h1 style="margin:0 0 8px;font-size:20px;line-height:1.3">${escape(subject)}</h1>
<p style="margin:0 0 16px">${escape(lead)}</p>
<table role="presentation" style="margin:0 0 24px;border-collapse:collapse">
${facts
  .map(
    ([name, value]) => `\
<tr><td style="padding:2px 16px 2px 0;vertical-align:top;white-space:nowrap;opacity:.7">${escape(name)}</td>\
<td style="padding:2px 0;vertical-align:top;word-break:break-word">${escape(value)}</td></tr>`
  )
  .join("\n")}
</table>
<p style="margin:0 0 8px"><a href="${escape(link)}" style="display:inline-block;padding:10px 18px;border-radius:6px;background:#1f4fd8;color:#ffffff;text-decoration:none">${escape(action)}</a></p>
<p style="margin:0 0 24px;font-size:13px;word-break:break-all">${escape(link)}</p>
<p style="margin:0;font-size:13px;opacity:.7">${escape(reason)}</p>
</div>
</body>
</html>
`
