import { ClientError } from "../ClientError.ts"

/** The client was closed before the call ended. In a scope with `await using`, await the call before the scope ends: `return await …`. */
export class ClientClosed extends ClientError {
  override readonly code = "CLIENT_CLOSED"

  constructor(operation: string) {
    const message = `${operation}: the client was closed before the call ended. In a scope with \`await using\`, await the call inside it, as in \`return await …\`.`
    super("ClientClosed", message, operation)
  }
}
