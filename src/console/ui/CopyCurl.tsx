import { CopyButton } from "./CopyButton.tsx"
import { curlCommand } from "./curlCommand.ts"

/** Copies the command that requests a record from the API. `path` is the operation's, such as `/v1/agent-sessions/ses_…`. */
export const CopyCurl = ({ path }: { readonly path: string }) => (
  <CopyButton
    label="Copy a curl command that requests this record, with a variable for the API key"
    caption="Copy as curl"
    text={() => curlCommand({ origin: location.origin, path })}
  />
)
