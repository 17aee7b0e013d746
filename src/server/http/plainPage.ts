/** Small HTML pages without scripts, for browsers that are not signed in. */
import { HttpServerResponse } from "effect/http"
import { createHash } from "node:crypto"
import { pageHeaders } from "./securityHeaders.ts"

/** The colours and fonts of the console. */
const STYLE = `
:root { color-scheme: light dark; --accent: light-dark(#2f4a9e, #9db2f5) }
body { margin: 0; background: light-dark(#f6f6f4, #131416); color: light-dark(#1b1c1e, #eceded);
  font: 16px/1.5 ui-sans-serif, system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif }
main { max-width: 34rem; margin: 12vh auto 0; padding: 24px }
h1 { font-size: 22px; line-height: 1.3; margin: 0 0 12px }
p { margin: 0 0 20px }
ul { list-style: none; margin: 0; padding: 0; display: grid; gap: 10px }
a { color: var(--accent) }
button { font: inherit; font-weight: 600; padding: 10px 18px; border: 0; border-radius: 6px; cursor: pointer;
  background: var(--accent); color: light-dark(#ffffff, #10131c) }
button:focus-visible, a:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
`

/** The style is allowed by its digest: nothing else is loaded, run, or sent elsewhere. */
const POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'"
].join("; ")

/** A text with the characters escaped that have a meaning in HTML. */
export const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/gu, (one) => `&#${one.charCodeAt(0)};`)

/** A page. `title` and `content` are HTML. */
export const plainPage = (
  status: number,
  title: string,
  content: string,
  headers: Record<string, string> = {}
) =>
  HttpServerResponse.text(
    `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · Countersign</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<h1>${title}</h1>
${content}
</main>
</body>
</html>
`,
    {
      status,
      contentType: "text/html; charset=utf-8",
      headers: {
        ...pageHeaders,
        "content-security-policy": POLICY,
        "cache-control": "no-store",
        ...headers
      }
    }
  )
