import { consoleClient } from "../../state/consoleClient.ts"
import { useSession } from "../../state/session.ts"
import { Button } from "../../ui/Button.tsx"
import { EmptyState } from "../../ui/EmptyState.tsx"
import { FailureNotice } from "../../ui/FailureNotice.tsx"
import { plainLine } from "../../ui/plainLine.ts"
import { UntrustedText } from "../../ui/UntrustedText.tsx"
import { useAction } from "../../ui/useAction.ts"

/** The most characters of an organization's name in a heading. */
const MAX_NAME = 60

/** The address of an approval, for example of a mail, that the signed-in organization does not have. */
export const UnknownApproval = ({ onBack }: { readonly onBack: () => void }) => {
  const { key, organization } = useSession()
  const signingOut = useAction(() => consoleClient.session.sign_out({}))
  const signOut = async () => {
    // The address stays, so that the approval opens after the next sign-in.
    if ((await signingOut.runResult()) !== undefined) location.reload()
  }
  return (
    <EmptyState title={`No such approval in ${plainLine(organization, MAX_NAME)}`}>
      <p>
        You are signed in as <UntrustedText text={key.name} />. The approval belongs to another organization,
        or it was deleted.
      </p>
      <FailureNotice failure={signingOut.failure} />
      <div className="notice-actions">
        <Button onClick={onBack}>Back to the approvals</Button>
        <Button pending={signingOut.pending} onClick={() => void signOut()}>
          Sign in with another key
        </Button>
      </div>
    </EmptyState>
  )
}
