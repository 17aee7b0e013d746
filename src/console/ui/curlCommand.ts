/** Requests of the public API as commands for a shell. */

/** A text as one word of a POSIX shell. */
const shellWord = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`

/**
 * A curl command for an operation of the API. The key is a variable of the shell: the page does not have the key, and a copied command
 * should not contain one.
 */
export const curlCommand = (options: {
  readonly origin: string
  readonly path: string
  readonly method?: "GET" | "POST" | "PUT" | "DELETE"
  /** The JSON body. */
  readonly body?: object
}): string => {
  const { body, method = "GET", origin, path } = options
  return [
    `curl ${method === "GET" ? "" : `-X ${method} `}${shellWord(origin + path)}`,
    '-H "Authorization: Bearer $COUNTERSIGN_API_KEY"',
    ...(body === undefined
      ? []
      : ["-H 'Content-Type: application/json'", `-d ${shellWord(JSON.stringify(body))}`])
  ].join(" \\\n  ")
}
