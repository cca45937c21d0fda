package service

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/flyteorg/flyte/v2/gen/go/flyteidl2/common"
)

// maxTokenBytes is above every token that pageToken makes.
const maxTokenBytes = 512

// pageToken says where a list goes on. It is opaque to clients, and good only for the list that it was made for.
type pageToken struct {
	// List is a digest of the request without its limit and token.
	List string `json:"list"`
	// Offset counts the rows of the pages before; or, for lists that resume after a row, CreatedAt and Name are that row's.
	Offset    int        `json:"offset,omitempty"`
	CreatedAt *time.Time `json:"createdAt,omitempty"`
	Name      string     `json:"name,omitempty"`
}

func (t pageToken) encode() string {
	// A struct of texts, a number and a time of this era always has a JSON form.
	text, _ := json.Marshal(t)
	return base64.RawURLEncoding.EncodeToString(text)
}

// wellFormed tells whether encode could have made the token: it leads past a number of rows or past one row, not both.
func (t pageToken) wellFormed() bool {
	afterRow := t.CreatedAt != nil
	return t.Offset >= 0 && afterRow == (t.Name != "") && !(afterRow && t.Offset > 0)
}

// decodePageToken takes a token that encode made for the list with this digest, or an empty one for the first page.
func decodePageToken(text, list string) (pageToken, error) {
	if text == "" {
		return pageToken{List: list}, nil
	}
	if len(text) > maxTokenBytes {
		return pageToken{}, invalidArgument("request.token: %d bytes are more than %d", len(text), maxTokenBytes)
	}
	var token pageToken
	plain, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(plain, &token)
	}
	if err != nil || !token.wellFormed() {
		return pageToken{}, invalidArgument("request.token: not one that this service gave out")
	}
	if token.List != list {
		return pageToken{}, invalidArgument("request.token: belongs to a list with another scope, filter or order")
	}
	return token, nil
}

// listDigest tells lists with different contents or order apart. page points to the list request inside request.
func listDigest(request proto.Message, page func(proto.Message) *common.ListRequest) string {
	request = proto.Clone(request)
	if p := page(request); p != nil {
		p.Limit, p.Token = 0, ""
	}
	// Marshalling a message that has just come over the wire does not fail.
	wire, _ := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	sum := sha256.Sum256(fmt.Appendf(wire, "%T", request))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}
