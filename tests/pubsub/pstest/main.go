// Serves Google's own fake of Pub/Sub, cloud.google.com/go/pubsub/v2/pstest, to programs in other languages.
// Prints its address, and serves until standard input ends, so that it cannot outlive who started it.
package main

import (
	"fmt"
	"io"
	"os"

	"cloud.google.com/go/pubsub/v2/pstest"
)

func main() {
	server := pstest.NewServerWithPort(0)
	fmt.Println(server.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}
