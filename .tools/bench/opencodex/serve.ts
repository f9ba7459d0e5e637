// Serves opencodex alone, without its command line, which would change the
// configuration of Codex. See ../README.md.
import { startServer } from "@bitkyc08/opencodex/src/server/index.ts";

await startServer(18765);
