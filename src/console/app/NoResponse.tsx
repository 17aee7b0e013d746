import { Button } from "../ui/Button.tsx"

/** The page while the service does not answer. */
export const NoResponse = ({ onRetry }: { readonly onRetry: () => void }) => (
  <main className="sign-in">
    <div className="card sign-in-card" role="alert">
      <h1>No response from the service</h1>
      <p className="quiet">The service may be restarting or unreachable.</p>
      <Button kind="primary" onClick={onRetry}>
        Try again
      </Button>
    </div>
  </main>
)
