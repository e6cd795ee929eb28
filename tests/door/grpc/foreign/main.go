// Publishes three messages, takes them under leases, acks them, and prints what it saw.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pb "example/goqueue/v1"
)

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	address, topic := os.Args[1], os.Args[2]
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	defer conn.Close()
	_, err = pb.NewTopicsClient(conn).CreateTopic(ctx, &pb.CreateTopicRequest{Name: topic})
	check(err)
	messages := []*pb.Message{}
	for _, value := range []string{"a", "b", "c"} {
		messages = append(messages, &pb.Message{Key: []byte("k"), Value: []byte(value)})
	}
	sent, err := pb.NewPublisherClient(conn).Publish(ctx, &pb.PublishRequest{Topic: topic, Messages: messages})
	check(err)
	fmt.Println("offsets", sent.Offsets)
	stream, err := pb.NewSubscriberClient(conn).Subscribe(ctx)
	check(err)
	wanted := &pb.Subscription{Group: "go", Topics: []string{topic}, Credit: 10}
	check(stream.Send(&pb.SubscribeRequest{Action: &pb.SubscribeRequest_Subscription{Subscription: wanted}}))
	for left := 3; left > 0; {
		frame, err := stream.Recv()
		check(err)
		for _, delivery := range frame.GetDeliveries().GetDeliveries() {
			receipts := []string{}
			for _, message := range delivery.Messages {
				fmt.Println(string(message.Value))
				receipts = append(receipts, message.Receipt)
			}
			ack := &pb.SubscribeRequest_Ack{Ack: &pb.AckRequest{Receipts: receipts}}
			check(stream.Send(&pb.SubscribeRequest{Id: 1, Action: ack}))
			left -= len(receipts)
		}
	}
	for {
		frame, err := stream.Recv()
		check(err)
		if answer := frame.GetAnswer(); answer != nil {
			fmt.Println("acked", len(answer.Failures) == 0)
			return
		}
	}
}
